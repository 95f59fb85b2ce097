// The main of a fuzz target in builds without libFuzzer: calls it once for
// every file named on the command line, and for every prefix length that cuts
// the file in half, to have some truncated inputs too.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

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
    for (size_t size = chars.size();; size /= 2) {
      // A copy of the exact size, so that a read past the end is seen.
      const std::vector<uint8_t> input(chars.begin(), chars.begin() + size);
      LLVMFuzzerTestOneInput(input.data(), input.size());
      if (size == 0) break;
    }
  }
  std::cout << "replayed " << argc - 1 << " stored inputs and their halves\n";
  return 0;
}
