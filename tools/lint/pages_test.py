"""Pages: each folder of code has a README.md, testdata/ names every file."""
import fnmatch
import re
import unittest
from pathlib import Path

import tree

CODE = (".h", ".cc", ".cu", ".proto", ".py", ".bzl")
# Stand-ins of a few lines; tools/bazel/README.md has a line on each.
WITHOUT = ("tools/bazel/",)
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")


def problems(root):
    names = tree.files(root)
    found = [f"{page} is missing" for page in TOP if page not in names]

    folders = sorted({str(Path(n).parent) for n in names if n.endswith(CODE)})
    for folder in folders:
        if folder == "." or folder.startswith(WITHOUT):
            continue
        if f"{folder}/README.md" not in names:
            found.append(f"{folder}/README.md is missing: what the folder is, "
                         "its files, where to add a thing")
    for name in names:
        if Path(name).name in TOP and not tree.text(root, name).strip():
            found.append(f"{name} is empty")

    named = []  # paths, patterns and folders, from the root
    for name in names:
        if name.startswith("testdata/") and name.endswith("/README.md"):
            folder = str(Path(name).parent)
            named += [f"{folder}/{n}".rstrip("/") for n in
                      re.findall(r"`([^`\s]+)`", tree.text(root, name))]
    for name in names:
        if not name.startswith("testdata/") or (
                Path(name).name in ("README.md", "BUILD.bazel")):
            continue
        if not any(fnmatch.fnmatch(name, n) or name.startswith(n + "/")
                   for n in named):
            found.append(f"{name}: no line in testdata/README.md says what "
                         "made it")
    return found


class Pages(tree.TreeTest):
    PROBLEMS = problems
    GOOD = {page: "text\n" for page in TOP}

    def test_this_tree(self):
        self.expect_clean_tree()

    def test_each_top_page_is_asked_for(self):
        self.assertEqual(self.of(self.GOOD), [])
        for page in TOP:
            rest = {k: v for k, v in self.GOOD.items() if k != page}
            self.assertEqual(self.of(rest), [f"{page} is missing"])
        self.assertEqual(self.of({**self.GOOD, "CHANGELOG.md": "\n"}),
                         ["CHANGELOG.md is empty"])

    def test_a_folder_of_code_without_a_page_is_named(self):
        code = {**self.GOOD, "a/b/x.cc": ""}
        self.assertEqual(len(self.of(code)), 1)
        self.assertEqual(self.of({**code, "a/b/README.md": "b\n"}), [])

    def test_a_data_file_without_a_line_is_named(self):
        data = {**self.GOOD, "testdata/jobs/a.yaml": "", "testdata/x/b": "",
                "testdata/x/c": ""}
        lines = "`jobs/*.yaml`: by hand\n`x/b`: by a script\n"
        found = self.of({**data, "testdata/README.md": lines})
        self.assertEqual(len(found), 1)
        self.assertIn("testdata/x/c", found[0])
        self.assertEqual(
            self.of({**data, "testdata/README.md": lines + "`x/`\n"}), [])
        self.assertEqual(
            self.of({**data, "testdata/README.md": lines + "`x`\n"}), [])
        self.assertEqual(
            self.of({**data, "testdata/README.md": lines,
                     "testdata/x/README.md": "`c`\n"}), [])


if __name__ == "__main__":
    unittest.main()
