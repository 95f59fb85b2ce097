"""The tree builds anywhere: no machine's paths, no hosts it would download from.

And no note to do something later without the number of an issue.
"""
import re
import unittest

import tree

# Split, so that this file does not match itself.
HOMES = re.compile(r"(^|[\s\"'`=(:])/(" + "|".join(
    ["wor" + "k", "hom" + "e", "roo" + "t", "User" + "s", "far" + "m"]) +
    r")/\w")
HOSTS = re.compile(r"\b(deb|security|snapshot)\.debian\.o" + r"rg\b|"
                   r"\bpypi\.o" + r"rg\b|\bpythonhosted\.o" + r"rg\b|"
                   r"\bregistry\.npmjs|\bproxy\.golang\.o" + r"rg\b|"
                   r"\bhuggingface\.c" + r"o\b")
LATER = re.compile(r"\b(TOD" + r"O|FIXM" + r"E|XX" + r"X)\b(?!\(#\d+\))")
BINARY = (".npy", ".npz", ".gz", ".onnx", ".safetensors", ".bin")


def problems(root):
    found = []
    for name in tree.files(root):
        # A corpus holds whatever a fuzzer found.
        if name.endswith(BINARY) or name == "LICENSE" or "corpus" in name:
            continue
        for number, line in enumerate(tree.text(root, name).splitlines(), 1):
            where = f"{name}:{number}: "
            if HOMES.search(line):
                found.append(where + "names a folder of one machine")
            if HOSTS.search(line):
                found.append(where + "names a host to download from")
            if LATER.search(line):
                found.append(where + "a note to do something later, without "
                             "an issue's number: (#12)")
    return found


class Words(tree.TreeTest):
    PROBLEMS = problems

    def test_this_tree(self):
        self.expect_clean_tree()

    def test_a_machine_path_is_seen(self):
        for folder in ("/hom" + "e/ann", "/wor" + "k/x", "/roo" + "t/a"):
            self.assertEqual(len(self.of({"a.md": f"see {folder}\n"})), 1)
        self.assertEqual(self.of({"a.md": "the daemon/node/work queue\n"}), [])

    def test_a_host_is_seen(self):
        self.assertEqual(len(self.of({"a.md": "https://pypi.o" + "rg/x\n"})), 1)

    def test_a_note_without_a_number_is_seen(self):
        self.assertEqual(len(self.of({"a.cc": "// TOD" + "O: later\n"})), 1)
        self.assertEqual(self.of({"a.cc": "// TOD" + "O(#12): x\n"}), [])


if __name__ == "__main__":
    unittest.main()
