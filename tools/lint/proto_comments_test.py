"""Messages are documented where they are defined: `pipectl explain` prints it.

Every message, enum, service, call and field has a comment: above it, behind
it, or above the run of fields that it heads. In job.proto every field has one
of its own.
"""
import re
import unittest

import tree

BLOCK = re.compile(r"^(message|enum|service|oneof)\s+(\w+)\s*\{?")
CALL = re.compile(r"^rpc\s+(\w+)")
FIELD = re.compile(r"^(?:repeated\s+|optional\s+)?"
                   r"(?:map\s*<[^>]*>|[\w.]+)\s+(\w+)\s*=\s*\d+")
# Files whose every field is printed alone.
EACH_FIELD = ("proto/job.proto",)


def problems(root):
    found = []
    for name in tree.files(root):
        if not name.endswith(".proto"):
            continue
        lines = tree.text(root, name).splitlines()
        covered = False  # by a comment above, with no blank line since
        for number, raw in enumerate(lines, 1):
            line = raw.strip()
            if not line or line == "}":
                covered = False
                continue
            if line.startswith("//"):
                covered = True
                continue
            behind = "//" in line
            match = BLOCK.match(line) or CALL.match(line) or FIELD.match(line)
            if match is None:
                continue
            if BLOCK.match(line):
                kind, what = BLOCK.match(line).group(1, 2)
                if kind != "oneof" and not (covered or behind):
                    found.append(f"{name}:{number}: {what} has no comment")
                covered = covered if kind == "oneof" else False
                continue
            if not (covered or behind):
                found.append(f"{name}:{number}: {match.group(1)} has no "
                             "comment")
            if name in EACH_FIELD:
                covered = False
    return found


class ProtoComments(tree.TreeTest):
    PROBLEMS = problems

    def test_this_tree(self):
        self.expect_clean_tree()

    def test_what_has_no_comment_is_named(self):
        self.assertEqual(
            self.of({"proto/a.proto":
                     "// A.\nmessage A {\n  int32 n = 1;\n}\n"}),
            ["proto/a.proto:3: n has no comment"])
        self.assertEqual(
            self.of({"proto/a.proto": "message A {\n}\n"}),
            ["proto/a.proto:1: A has no comment"])
        self.assertEqual(
            self.of({"proto/a.proto": "// S.\nservice S {\n  rpc Go(A) "
                     "returns (B);\n}\n"}),
            ["proto/a.proto:3: Go has no comment"])

    def test_a_comment_above_behind_or_over_a_run_is_enough(self):
        self.assertEqual(
            self.of({"proto/a.proto":
                     "// A.\nmessage A {\n  // N.\n  int32 n = 1;\n"
                     "  int32 m = 2;\n\n  repeated B b = 3;  // Bs.\n}\n"}), [])

    def test_a_job_field_needs_its_own(self):
        self.assertEqual(
            self.of({"proto/job.proto":
                     "// A.\nmessage A {\n  // N.\n  int32 n = 1;\n"
                     "  int32 m = 2;\n}\n"}),
            ["proto/job.proto:5: m has no comment"])


if __name__ == "__main__":
    unittest.main()
