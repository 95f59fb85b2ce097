// The main of a fuzz target in builds without libFuzzer: feeds it every file
// named on the command line, and every file cut off after each of its first
// bytes and at its half, its quarter and so on.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// Long enough for the header of any format here.
constexpr size_t kEachPrefix = 256;

void Feed(const std::vector<char>& chars, size_t size) {
  // A copy of the exact size, so that a read past the end is seen.
  const std::vector<uint8_t> input(chars.begin(), chars.begin() + size);
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "no corpus: name at least one file\n";
    return 1;
  }
  for (int i = 1; i < argc; ++i) {
    std::ifstream in(argv[i], std::ios::binary);
    if (!in) {
      std::cerr << argv[i] << ": cannot be read\n";
      return 1;
    }
    const std::vector<char> chars((std::istreambuf_iterator<char>(in)),
                                  std::istreambuf_iterator<char>());
    for (size_t size = chars.size(); size > kEachPrefix; size /= 2) {
      Feed(chars, size);
    }
    for (size_t size = std::min(chars.size(), kEachPrefix) + 1; size-- > 0;) {
      Feed(chars, size);
    }
  }
  std::cout << "replayed " << argc - 1 << " stored inputs and parts of them\n";
  return 0;
}
