"""Every C++ file is as clang-format-14 writes it; tools/format mends it."""
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import tree

CLANG_FORMAT = "clang-format-14"
CXX = (".h", ".cc", ".cu", ".cuh")


def problems(root, style=tree.ROOT / ".clang-format"):
    names = [n for n in tree.files(root) if n.endswith(CXX)]
    if not names:
        return []
    done = subprocess.run(
        [CLANG_FORMAT, "--dry-run", "-Werror", f"--style=file:{style}"] + names,
        cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lines = [l for l in done.stderr.splitlines() if ": error:" in l]
    wrong = sorted({l.split(":")[0] for l in lines})
    if done.returncode and not wrong:
        return [done.stderr]
    return [f"{n}: not formatted; run tools/format" for n in wrong]


@unittest.skipUnless(shutil.which(CLANG_FORMAT), f"no {CLANG_FORMAT} here")
class Format(tree.TreeTest):
    PROBLEMS = problems

    def test_this_tree(self):
        self.expect_clean_tree()

    def test_a_file_out_of_format_is_named(self):
        found = self.of({"a.cc": "int  F( ){return 1;}\n", "b.cc": "int g;\n"})
        self.assertEqual(found, ["a.cc: not formatted; run tools/format"])


if __name__ == "__main__":
    unittest.main()
