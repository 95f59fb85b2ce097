"""Scripts parse, and can be run."""
import ast
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import tree


def problems(root):
    found = []
    for name in tree.files(root):
        if not name.startswith(("tools/", ".ci/")):
            continue
        path = root / name
        first = path.read_bytes().split(b"\n", 1)[0]
        if name.endswith(".py"):
            try:
                ast.parse(tree.text(root, name))
            except SyntaxError as e:
                found.append(f"{name}:{e.lineno}: {e.msg}")
        if not first.startswith(b"#!"):
            continue
        if b"bash" in first or first.endswith(b"/sh"):
            done = subprocess.run(["bash", "-n", str(path)], text=True,
                                  stderr=subprocess.PIPE)
            if done.returncode:
                found.append(f"{name}: {done.stderr.strip()}")
        if not name.endswith("_test.py") and not os.access(path, os.X_OK):
            found.append(f"{name}: has a #! line and cannot be run; chmod +x")
    return found


class Scripts(tree.TreeTest):
    PROBLEMS = problems

    def test_this_tree(self):
        self.expect_clean_tree()

    def test_a_broken_script_is_named(self):
        found = self.of({"tools/a": "#!/usr/bin/env bash\nif true; then\n"})
        self.assertEqual(len(found), 2)  # and it is not executable
        self.assertEqual(len(self.of({"tools/a.py": "def f(:\n"})), 1)


if __name__ == "__main__":
    unittest.main()
