"""Writes files as a C++ constant table: embed.py NAME PACKAGE OUT.h OUT.cc SRC...

See embed_files in defs.bzl.
"""
import sys

HEADER = """\
// Made by tools/bazel/embed.py.
#pragma once

#include <cstddef>
#include <string_view>

namespace pipework::{name} {{

struct File {{
  std::string_view name;   // its path from the workspace root
  std::string_view bytes;
}};

inline constexpr std::size_t kFileCount = {count};
extern const File kFiles[kFileCount];

// The file of that path, or nullptr.
const File* Find(std::string_view name);

}}  // namespace pipework::{name}
"""

SOURCE = """\
// Made by tools/bazel/embed.py.
#include "{header}"

namespace pipework::{name} {{
namespace {{
{arrays}
}}  // namespace

const File kFiles[kFileCount] = {{
{rows}
}};

const File* Find(std::string_view name) {{
  for (const File& file : kFiles) {{
    if (file.name == name) return &file;
  }}
  return nullptr;
}}

}}  // namespace pipework::{name}
"""


def workspace_path(path):
    """bazel-out/k8-opt/bin/proto/x.bin -> proto/x.bin"""
    parts = path.split("/")
    if parts[0] == "bazel-out" and len(parts) > 3:
        parts = parts[3:]
    return "/".join(parts)


def array(index, data):
    # One more byte, so that an empty file has an array too.
    numbers = [str(b) for b in data + b"\0"]
    lines = [",".join(numbers[i:i + 24]) for i in range(0, len(numbers), 24)]
    body = ",\n    ".join(lines)
    return f"const unsigned char k{index}[] = {{\n    {body}}};"


def main(name, package, header, source, *paths):
    arrays, rows = [], []
    for index, path in enumerate(paths):
        with open(path, "rb") as f:
            data = f.read()
        arrays.append(array(index, data))
        rows.append(f'    {{"{workspace_path(path)}",\n'
                    f'     {{reinterpret_cast<const char*>(k{index}), '
                    f'{len(data)}}}}},')
    with open(header, "w") as f:
        f.write(HEADER.format(name=name, count=len(paths)))
    with open(source, "w") as f:
        f.write(SOURCE.format(header=f"{package}/{name}.h", name=name,
                              arrays="\n".join(arrays), rows="\n".join(rows)))


if __name__ == "__main__":
    main(*sys.argv[1:])
