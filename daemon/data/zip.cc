#include "daemon/data/zip.h"

#include <zlib.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/data/inflate.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr int64_t kEndBytes = 22;    // of the end record, without comment
constexpr int64_t kEntryBytes = 46;  // of a directory entry, without name
constexpr int64_t kLocalBytes = 30;  // of a member's header, without name
constexpr int64_t kLongestComment = 65535;
constexpr uint32_t kEndMark = 0x06054b50;
constexpr uint32_t kEntryMark = 0x02014b50;
constexpr uint32_t kLocalMark = 0x04034b50;
constexpr uint32_t kIn64 = 0xffffffff;  // "the real number is in zip64"
constexpr size_t kNamesShown = 8;

uint32_t Number(absl::string_view bytes, int64_t at, int width) {
  uint32_t value = 0;
  for (int i = 0; i < width; ++i) {
    value |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

struct Entry {
  int64_t at = 0;  // where its line of the directory is
  uint32_t flags = 0;
  uint32_t method = 0;
  uint32_t crc = 0;
  int64_t packed = 0;
  int64_t size = 0;
  int64_t local_at = 0;
};

absl::StatusOr<std::string> Bytes(const ByteSource& source, int64_t offset,
                                  int64_t n) {
  std::string bytes(static_cast<size_t>(n), '\0');
  RETURN_IF_ERROR(source.Read(offset, absl::MakeSpan(bytes)));
  return bytes;
}

struct Directory {
  int64_t at = 0;
  int64_t bytes = 0;
  int64_t entries = 0;
};

absl::StatusOr<Directory> FindDirectory(const ByteSource& archive) {
  const int64_t tail_bytes =
      std::min(archive.size(), kEndBytes + kLongestComment);
  const int64_t tail_at = archive.size() - tail_bytes;
  ASSIGN_OR_RETURN(const std::string tail, Bytes(archive, tail_at, tail_bytes));
  for (int64_t i = tail_bytes - kEndBytes; i >= 0; --i) {
    if (Number(tail, i, 4) != kEndMark) continue;
    if (i + kEndBytes + Number(tail, i + 20, 2) != tail_bytes) continue;
    Directory directory;
    directory.entries = Number(tail, i + 10, 2);
    directory.bytes = Number(tail, i + 12, 4);
    directory.at = Number(tail, i + 16, 4);
    const int64_t end_at = tail_at + i;
    if (directory.entries == 0xffff || directory.at == kIn64) {
      return ErrorAt(archive.name(), end_at, "the archive", "in zip64 form",
                     "a plain zip archive below 4 GiB",
                     "save the arrays as .npy files");
    }
    if (directory.at > end_at || directory.bytes > end_at - directory.at) {
      return ErrorAt(
          archive.name(), end_at, "the archive's directory",
          absl::StrCat(directory.bytes, " bytes at byte ", directory.at),
          absl::StrCat("it to end by byte ", end_at), "the file is damaged");
    }
    return directory;
  }
  return ErrorAt(archive.name(), archive.size(), "the end of the file",
                 "not that of a zip archive", "an archive of numpy.savez",
                 "it may be cut off; fetch or make it again");
}

absl::StatusOr<Entry> FindEntry(const ByteSource& archive,
                                absl::string_view key) {
  ASSIGN_OR_RETURN(const Directory directory, FindDirectory(archive));
  ASSIGN_OR_RETURN(const std::string bytes,
                   Bytes(archive, directory.at, directory.bytes));
  const std::string file = absl::StrCat(key, ".npy");
  std::vector<std::string> names;
  int64_t at = 0;
  for (int64_t i = 0; i < directory.entries; ++i) {
    const int64_t rest = directory.bytes - at;
    if (rest < kEntryBytes || Number(bytes, at, 4) != kEntryMark) {
      return ErrorAt(archive.name(), directory.at + at,
                     absl::StrCat("directory entry ", i), "not there",
                     absl::StrCat(directory.entries, " entries"),
                     "the file is damaged");
    }
    const int64_t name_bytes = Number(bytes, at + 28, 2);
    const int64_t entry_bytes = kEntryBytes + name_bytes +
                                Number(bytes, at + 30, 2) +
                                Number(bytes, at + 32, 2);
    if (entry_bytes > rest) {
      return ErrorAt(archive.name(), directory.at + at,
                     absl::StrCat("directory entry ", i), "cut off",
                     absl::StrCat(entry_bytes, " bytes"),
                     "the file is damaged");
    }
    const std::string name = bytes.substr(at + kEntryBytes, name_bytes);
    if (name == key || name == file) {
      Entry entry;
      entry.at = directory.at + at;
      entry.flags = Number(bytes, at + 8, 2);
      entry.method = Number(bytes, at + 10, 2);
      entry.crc = Number(bytes, at + 16, 4);
      entry.packed = Number(bytes, at + 20, 4);
      entry.size = Number(bytes, at + 24, 4);
      entry.local_at = Number(bytes, at + 42, 4);
      return entry;
    }
    if (names.size() < kNamesShown) {
      names.push_back(absl::EndsWith(name, ".npy")
                          ? name.substr(0, name.size() - 4)
                          : name);
    } else if (names.size() == kNamesShown) {
      names.push_back("...");
    }
    at += entry_bytes;
  }
  return absl::NotFoundError(MismatchText(
      archive.name(), "member", absl::StrCat("\"", key, "\""),
      names.empty() ? "a member, but the archive is empty"
                    : absl::StrCat("one of ", absl::StrJoin(names, ", "))));
}

// Where the member's bytes start, after its own header.
absl::StatusOr<int64_t> DataOf(const ByteSource& archive, const Entry& entry) {
  if (entry.local_at > archive.size() - kLocalBytes) {
    return ErrorAt(archive.name(), entry.at, "the member's place",
                   absl::StrCat("byte ", entry.local_at),
                   absl::StrCat("below ", archive.size()),
                   "the file is cut off or damaged");
  }
  ASSIGN_OR_RETURN(const std::string local,
                   Bytes(archive, entry.local_at, kLocalBytes));
  if (Number(local, 0, 4) != kLocalMark) {
    return ErrorAt(archive.name(), entry.local_at, "the member's header",
                   "not there", "its mark", "the file is damaged");
  }
  const int64_t data_at = entry.local_at + kLocalBytes + Number(local, 26, 2) +
                          Number(local, 28, 2);
  if (data_at > archive.size() || entry.packed > archive.size() - data_at) {
    return ErrorAt(archive.name(), entry.at, "the member's packed size",
                   absl::StrCat(entry.packed),
                   absl::StrCat("at most ",
                                std::max<int64_t>(archive.size() - data_at, 0)),
                   "the file is cut off or damaged");
  }
  return data_at;
}

absl::Status CheckSum(const ByteSource& archive, const Entry& entry,
                      const ByteSource& member) {
  constexpr int64_t kBlock = 64 << 10;
  std::vector<char> block(std::min(kBlock, member.size()));
  uLong crc = crc32(0, nullptr, 0);
  for (int64_t at = 0; at < member.size();) {
    const int64_t n = std::min(kBlock, member.size() - at);
    RETURN_IF_ERROR(member.Read(at, absl::MakeSpan(block.data(), n)));
    crc = crc32(crc, reinterpret_cast<const Bytef*>(block.data()),
                static_cast<uInt>(n));
    at += n;
  }
  if (crc == entry.crc) return absl::OkStatus();
  return ErrorAt(archive.name(), entry.local_at, "the member's checksum",
                 absl::StrCat(absl::Hex(crc, absl::kZeroPad8)),
                 absl::StrCat(absl::Hex(entry.crc, absl::kZeroPad8)),
                 "the file is damaged; fetch or make it again");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ByteSource>> OpenZipMember(
    std::shared_ptr<const ByteSource> archive, absl::string_view key) {
  ASSIGN_OR_RETURN(const Entry entry, FindEntry(*archive, key));
  const std::string name = absl::StrCat(archive->name(), "#", key);
  if (entry.packed == kIn64 || entry.size == kIn64 || entry.local_at == kIn64) {
    return ErrorAt(archive->name(), entry.at, "the member", "in zip64 form",
                   "below 4 GiB", "save the array as an .npy file");
  }
  if ((entry.flags & 1) != 0) {
    return ErrorAt(archive->name(), entry.at, "the member", "encrypted",
                   "plain");
  }
  ASSIGN_OR_RETURN(const int64_t data_at, DataOf(*archive, entry));

  std::shared_ptr<const ByteSource> member;
  if (entry.method == 0) {
    if (entry.packed != entry.size) {
      return ErrorAt(archive->name(), entry.at, "the stored member's size",
                     absl::StrCat(entry.packed, " and ", entry.size),
                     "twice the same", "the file is damaged");
    }
    member = Window(archive, name, data_at, entry.packed);
  } else if (entry.method == 8) {
    if (entry.size > entry.packed * kMostBytesPerPackedByte) {
      return ErrorAt(
          archive->name(), entry.at, "the member's size",
          absl::StrCat(entry.size),
          absl::StrCat("at most ", entry.packed * kMostBytesPerPackedByte,
                       ", which is what ", entry.packed,
                       " packed bytes can hold"),
          "the file is damaged");
    }
    ASSIGN_OR_RETURN(Inflated inflated,
                     Inflate(*archive, data_at, entry.packed,
                             InflateFormat::kRaw, entry.size + 1));
    if (!inflated.ended ||
        static_cast<int64_t>(inflated.bytes.size()) != entry.size) {
      return ErrorAt(archive->name(), entry.at, "the member's size",
                     absl::StrCat(entry.size),
                     inflated.ended ? absl::StrCat(inflated.bytes.size(),
                                                   ", which is what came out")
                                    : "less than what came out",
                     "the file is damaged");
    }
    member = MemorySource(name, std::move(inflated.bytes));
  } else {
    return ErrorAt(archive->name(), entry.at, "the member's packing",
                   absl::StrCat("method ", entry.method),
                   "stored (0) or deflated (8)",
                   "save it with numpy.savez or savez_compressed");
  }
  RETURN_IF_ERROR(CheckSum(*archive, entry, *member));
  return member;
}

}  // namespace pipework
