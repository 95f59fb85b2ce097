"""Checkpoints: go on from one, on other numbers of stages too; export."""
import subprocess
import sys

import harness
from harness import JOBS, ROOT, pipectl


class Resume(harness.Case):

    def run_in(self, name, *arguments, spec="cnn_bn.yaml"):
        self.state = self.folder / name
        code, job = self.local_run(JOBS / spec, "--set",
                                   "run.target_accuracy=0", *arguments)
        self.assertEqual(code, 0, job)
        return job

    def weights(self, job, name):
        out = self.folder / f"{name}.safetensors"
        done = pipectl("checkpoint", "export", job["checkpoint"], "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out.read_bytes()

    def test_resumed_equals_uninterrupted_bit_for_bit(self):
        flush = ("--set", "pipeline.schedule=flush", "--set",
                 "pipeline.weights=flush", "--set", "batch.microbatches=4")
        whole = self.run_in("whole", *flush, "--set",
                            "run={epochs: 4}")
        want = self.weights(whole, "whole")
        # The rate's schedule spans the whole run, so the first part is a run
        # of the same length that is stopped by its checkpoint's step.
        code = self.run_in("first", *flush, "--set", "run={epochs: 4}",
                           "--set", "checkpoint={every_epochs: 2, keep: 3}")
        first = [c for c in self.here_json(
            "checkpoint", "ls", code["id"])[1]["checkpoints"]
            if c["step"] == code["step"] // 2]
        self.assertEqual(len(first), 1)
        for stages in (1, 2, 3):
            with self.subTest(stages=stages):
                job = self.run_in(
                    f"second{stages}", *flush, "--set", "run={epochs: 4}",
                    "--set", f"pipeline.stages={stages}",
                    "--from", first[0]["folder"])
                self.assertEqual(job["step"], whole["step"])
                self.assertEqual(job["attempts"][0]["from_step"],
                                 whole["step"] // 2)
                self.assertEqual(self.weights(job, f"s{stages}"), want)

    def test_a_checkpoint_of_another_network_is_refused(self):
        job = self.run_in("one", "--set", "run={epochs: 1}")
        self.state = self.folder / "two"
        code, error = self.local_run(JOBS / "mlp.yaml", "--from",
                                     job["checkpoint"])
        self.assertEqual((code, error["kind"]), (3, "Error"), error)

    def test_pytorch_reads_the_export_and_agrees(self):
        try:
            import torch  # noqa: F401
            import safetensors  # noqa: F401
        except ImportError as missing:
            self.skipTest(f"PyTorch and safetensors are not installed "
                          f"({missing})")
        job = self.run_in("export", spec="digits.yaml")
        self.weights(job, "model")
        script = ROOT / "tools" / "interop" / "torch_roundtrip.py"
        done = subprocess.run(
            [sys.executable, str(script), str(self.folder /
                                              "model.safetensors"),
             "--accuracy", str(job["test_accuracy"])],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    harness.main()
