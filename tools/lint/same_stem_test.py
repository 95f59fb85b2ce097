"""Whoever knows an op's name knows its files."""
import unittest
from pathlib import Path

import tree


def problems(root):
    names = set(tree.files(root))
    # Until the CUDA back end is there, an op owes it nothing.
    cuda = "kernels/cuda/cuda_backend.cc" in names
    list_file = "kernels/cuda/UNSUPPORTED"
    unsupported = tree.text(root, list_file).split() if list_file in names else []

    found = []
    ops = sorted(Path(n).stem for n in names
                 if Path(n).parent == Path("kernels/ops") and n.endswith(".h"))
    for op in ops:
        wanted = [f"kernels/reference/{op}.cc", f"kernels/cpu/{op}.cc",
                  f"kernels/ops/{op}_test.cc"]
        # .cc: a cuBLAS or cuDNN call
        if cuda and op not in unsupported and (
                f"kernels/cuda/{op}.cc" not in names):
            wanted.append(f"kernels/cuda/{op}.cu")
        found += [f"{op}: {w} is missing" for w in wanted if w not in names]

    found += [f"{list_file}: {op} is not an op of kernels/ops"
              for op in unsupported if op not in ops]
    for folder in ("kernels/layers", "kernels/models", "kernels/optimizers",
                   "scheduler/schedules", "scheduler/versioning",
                   "partitioner/algorithms", "daemon/transport"):
        inside = [n for n in names if str(Path(n).parent) == folder]
        if inside and f"{folder}/registry.cc" not in inside:
            found.append(f"{folder}/registry.cc is missing: it is the table")
    return found


class SameStem(tree.TreeTest):
    PROBLEMS = problems
    OP = {"kernels/ops/relu.h": "", "kernels/ops/relu_test.cc": "",
          "kernels/reference/relu.cc": "", "kernels/cpu/relu.cc": ""}

    def test_this_tree(self):
        self.expect_clean_tree()

    def test_an_op_with_all_its_files_passes(self):
        self.assertEqual(self.of(self.OP), [])

    def test_each_missing_file_is_named(self):
        for name in self.OP:
            if name.endswith(".h"):
                continue
            rest = {k: v for k, v in self.OP.items() if k != name}
            self.assertEqual(self.of(rest), [f"relu: {name} is missing"])

    def test_cuda_files_are_asked_for_once_there_is_a_back_end(self):
        cuda = {**self.OP, "kernels/cuda/cuda_backend.cc": ""}
        self.assertEqual(self.of(cuda),
                         ["relu: kernels/cuda/relu.cu is missing"])
        self.assertEqual(self.of({**cuda, "kernels/cuda/relu.cu": ""}), [])
        self.assertEqual(self.of({**cuda, "kernels/cuda/relu.cc": ""}), [])
        self.assertEqual(
            self.of({**cuda, "kernels/cuda/UNSUPPORTED": "relu\n"}), [])
        self.assertEqual(
            len(self.of({**cuda, "kernels/cuda/UNSUPPORTED": "relu glue\n"})),
            1)

    def test_a_folder_of_variants_has_its_table(self):
        self.assertEqual(
            len(self.of({"scheduler/schedules/gpipe.cc": ""})), 1)


if __name__ == "__main__":
    unittest.main()
