"""The files of a tree, and small trees for the self-tests of the lint tests."""
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Folders of Bazel's, Git's and the programs' own output.
SKIPPED_PREFIXES = ("bazel-", ".git", "pipework-state", "__pycache__")


def files(root=ROOT):
    """Paths relative to `root`, sorted: what Git tracks or would track."""
    if (root / ".git").exists():
        out = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"],
            check=True, stdout=subprocess.PIPE).stdout.decode()
        # A file that was deleted but not yet committed is still listed.
        names = [n for n in out.split("\0") if n and (root / n).is_file()]
        return sorted(set(names))
    return sorted(
        str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and
        not any(part.startswith(SKIPPED_PREFIXES)
                for part in p.relative_to(root).parts))


def text(root, name):
    return (root / name).read_text(encoding="utf-8", errors="replace")


def is_test(name):
    """Whether a file is compiled into tests only."""
    stem = name.rsplit("/", 1)[-1].split(".")[0]
    folders = name.split("/")[:-1]
    return (stem.endswith(("_test", "_fuzz", "_benchmark")) or
            any(f in ("testing", "e2e", "bench") for f in folders))


class TreeTest(unittest.TestCase):
    """A lint test: `problems(root)` on this tree, and on trees made to fail.

    A subclass sets PROBLEMS to its function; the test on the tree itself is
    `test_this_tree`, and the others call `of({path: content})`.
    """

    PROBLEMS = None
    maxDiff = None

    def of(self, contents):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, content in contents.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
            return type(self).PROBLEMS(root)

    def expect_clean_tree(self):
        problems = type(self).PROBLEMS(ROOT)
        if problems:
            self.fail(f"{len(problems)} problems\n" + "\n".join(problems))
