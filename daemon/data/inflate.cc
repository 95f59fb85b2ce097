#include "daemon/data/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr int64_t kInputBlock = 64 << 10;
constexpr int64_t kFirstOutput = 64 << 10;

struct EndInflate {
  void operator()(z_stream* stream) const {
    inflateEnd(stream);
    delete stream;
  }
};

absl::StatusOr<std::unique_ptr<z_stream, EndInflate>> Begin(
    InflateFormat format) {
  auto stream = std::make_unique<z_stream>();
  const int bits = format == InflateFormat::kRaw ? -MAX_WBITS : MAX_WBITS + 16;
  if (inflateInit2(stream.get(), bits) != Z_OK) {
    return absl::ResourceExhaustedError("zlib: no memory to unpack with");
  }
  return std::unique_ptr<z_stream, EndInflate>(stream.release());
}

}  // namespace

absl::StatusOr<Inflated> Inflate(const ByteSource& source, int64_t offset,
                                 int64_t packed, InflateFormat format,
                                 int64_t limit) {
  ASSIGN_OR_RETURN(auto stream, Begin(format));
  std::vector<char> input(std::min(kInputBlock, packed));
  int64_t fetched = 0;  // packed bytes given to zlib
  Inflated out;
  int64_t written = 0;
  bool between_members = false;

  const auto position = [&] { return offset + fetched - stream->avail_in; };
  while (written < limit) {
    if (stream->avail_in == 0 && fetched < packed) {
      const int64_t n = std::min<int64_t>(static_cast<int64_t>(input.size()),
                                          packed - fetched);
      RETURN_IF_ERROR(
          source.Read(offset + fetched, absl::MakeSpan(input.data(), n)));
      stream->next_in = reinterpret_cast<Bytef*>(input.data());
      stream->avail_in = static_cast<uInt>(n);
      fetched += n;
    }
    if (between_members) {
      if (stream->avail_in == 0) break;  // the usual end
      inflateReset(stream.get());
      between_members = false;
    }
    if (written == static_cast<int64_t>(out.bytes.size())) {
      out.bytes.resize(std::min(limit, std::max(kFirstOutput, 2 * written)));
    }
    const int64_t room = std::min<int64_t>(
        static_cast<int64_t>(out.bytes.size()) - written, 1 << 30);
    stream->next_out = reinterpret_cast<Bytef*>(&out.bytes[written]);
    stream->avail_out = static_cast<uInt>(room);
    const uInt before = stream->avail_in;
    const int result = inflate(stream.get(), Z_NO_FLUSH);
    const int64_t made = room - stream->avail_out;
    written += made;
    if (result == Z_STREAM_END) {
      if (format == InflateFormat::kGzip) {
        between_members = true;
        continue;
      }
      if (stream->avail_in > 0 || fetched < packed) {
        return ErrorAt(source.name(), position(), "the end of the packed data",
                       "here", absl::StrCat("at byte ", offset + packed),
                       "the archive is damaged");
      }
      between_members = true;
      break;
    }
    if (result != Z_OK && result != Z_BUF_ERROR) {
      return ErrorAt(source.name(), position(), "packed data",
                     stream->msg != nullptr ? stream->msg : "damaged",
                     "a deflate stream", "fetch or make the file again");
    }
    if (made == 0 && before == stream->avail_in && stream->avail_in == 0 &&
        fetched == packed) {
      return ErrorAt(source.name(), position(), "the packed data", "cut off",
                     "its end", "fetch or make the file again");
    }
  }
  out.ended = between_members;
  out.bytes.resize(written);
  return out;
}

}  // namespace pipework
