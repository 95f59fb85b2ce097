"""The main job: one command trains a real model through every process."""
import csv
import json

import harness
from harness import JOBS, pipectl, pipectl_json


class MainJob(harness.Case):

    def run_digits(self, *arguments):
        code, job = self.local_run(JOBS / "digits.yaml", *arguments)
        self.assertEqual(code, 0, job)
        return job

    def test_digits_reach_their_target_and_the_numbers_make_sense(self):
        metrics = self.folder / "steps.jsonl"
        job = self.run_digits("--metrics", metrics)
        self.assertEqual((job["kind"], job["api_version"]),
                         ("Job", "pipework.v1"))
        self.assertEqual(job["state"], "SUCCEEDED")
        self.assertGreaterEqual(job["test_accuracy"], 0.975)
        self.assertEqual(job["attempt"], 1)
        self.assertGreater(job["step"], 0)
        self.assertGreater(job["samples_per_second"], 0)
        self.assertGreater(job["wall_seconds"], 0)

        self.assertEqual([e["epoch"] for e in job["epochs"]],
                         list(range(1, len(job["epochs"]) + 1)))
        self.assertLess(job["epochs"][-1]["train_loss"],
                        job["epochs"][0]["train_loss"])
        self.assertEqual(job["epochs"][-1]["test_accuracy"],
                         job["test_accuracy"])

        stages = job["stages"]
        self.assertEqual([s["index" if "index" in s else "stage"]
                          for s in stages], [0, 1, 2, 3])
        self.assertEqual([s["versions_held"] for s in stages], [4, 3, 2, 1])
        self.assertEqual([s["staleness"] for s in stages], [3, 2, 1, 0])
        self.assertEqual(len({s["device"] for s in stages}), 4)
        layers = [name for s in stages for name in s["layers"]]
        self.assertEqual(len(layers), len(set(layers)))
        for index, stage in enumerate(stages):
            with self.subTest(stage=index):
                self.assertAlmostEqual(sum(stage["shares"].values()), 1,
                                       places=3)
                self.assertLess(stage["shares"]["other"], 0.05)
                self.assertAlmostEqual(stage["utilisation"],
                                       stage["shares"]["compute"], places=6)
                self.assertGreater(stage["forward_ms"], 0)
                self.assertGreater(stage["backward_ms"], 0)
                # Stash: the versions beside the newest one.
                self.assertEqual(
                    stage["stash_bytes"],
                    (stage["versions_held"] - 1) * stage["weight_bytes"])
                self.assertGreater(stage["activation_bytes"], 0)
                self.assertGreater(stage["bytes_sent"], 0)

        # What was planned is what was held.
        for planned, stage in zip(job["plan"]["stages"], stages):
            with self.subTest(planned=planned["index"]):
                self.assertEqual(planned["versions"], stage["versions_held"])
                self.assertEqual(planned["staleness"], stage["staleness"])
                self.assertEqual(planned["weight_bytes"],
                                 stage["weight_bytes"])
                self.assertEqual(planned["stash_bytes"], stage["stash_bytes"])
                self.assertAlmostEqual(
                    planned["activation_bytes"] / stage["activation_bytes"], 1,
                    delta=0.1)

        steps = [json.loads(line) for line in metrics.open()]
        self.assertEqual([s["step"] for s in steps], list(range(job["step"])))
        self.assertGreater(steps[0]["loss"], steps[-1]["loss"])

        checkpoint = job["checkpoint"]
        done = pipectl("checkpoint", "verify", checkpoint)
        self.assertEqual(done.returncode, 0, done.stderr)
        out = self.folder / "model.safetensors"
        done = pipectl("checkpoint", "export", checkpoint, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        header = out.read_bytes()
        size = int.from_bytes(header[:8], "little")
        names = json.loads(header[8:8 + size])
        self.assertIn("conv1.weight", names)
        self.assertEqual(names["conv1.weight"]["dtype"], "F32")
        self.assert_nothing_left()

        # After the end the folder alone answers.
        code, shown = pipectl_json("show", job["id"], "--state-dir",
                                   self.state)
        self.assertEqual((code, shown["state"]), (0, "SUCCEEDED"))
        self.assertEqual(shown["test_accuracy"], job["test_accuracy"])
        done = self.here("logs", job["id"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.strip())
        code, listed = pipectl_json("checkpoint", "ls", job["id"],
                                    "--state-dir", self.state)
        self.assertEqual(code, 0)
        self.assertTrue(all(c["complete"] for c in listed["checkpoints"]))
        self.assertLessEqual(len(listed["checkpoints"]), 2)

    def test_the_closing_page_fits_80_columns_and_names_the_next_command(self):
        done = pipectl("local", "run", JOBS / "digits.yaml", "--state-dir",
                       self.state, "--set", "run.epochs=2", "--set",
                       "run.target_accuracy=0.1",
                       "--metrics", self.folder / "steps.csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\033", done.stdout)
        wide = [line for line in done.stdout.splitlines()
                if len(line) > 80 and "/" not in line]
        self.assertEqual(wide, [])
        self.assertIn("pipectl checkpoint export", done.stdout)
        self.assertIn("SUCCEEDED", done.stdout)
        with open(self.folder / "steps.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([int(r["step"]) for r in rows],
                         list(range(len(rows))))
        self.assertGreater(len(rows), 0)

    def test_a_missed_target_fails_the_job_with_its_reason(self):
        code, job = self.local_run(JOBS / "digits.yaml", "--set",
                                   "run.epochs=1", "--set",
                                   "run.target_accuracy=0.9999")
        self.assertEqual(code, 10)
        self.assertEqual((job["state"], job["reason"]),
                         ("FAILED", "TARGET_MISSED"))

    def test_the_same_seed_and_cuts_give_the_same_bits(self):
        # With automatic cuts two profiles may cut differently, and with
        # stashing the cut decides how old a layer's gradients are.
        cuts = ("pipeline.stages=[{layers: [conv1..relu1]}, {layers: "
                "[conv2..pool1]}, {layers: [conv3..pool2]}, {layers: "
                "[flatten..loss]}]")
        files = []
        for number in range(2):
            self.state = self.folder / f"state{number}"
            job = self.run_digits("--set", "run.epochs=2", "--set",
                                  "run.target_accuracy=0", "--set", cuts)
            out = self.folder / f"{number}.safetensors"
            pipectl("checkpoint", "export", job["checkpoint"], "--out", out)
            files.append(out.read_bytes())
        # The headers hold no time and no job id, so whole files agree.
        self.assertEqual(files[0], files[1])

    def test_another_schedule_and_uneven_numbers_of_devices(self):
        for sets in (["pipeline.schedule=flush", "pipeline.weights=flush",
                      "batch.microbatches=4"],
                     ["pipeline.stages=3"], ["pipeline.stages=1"]):
            with self.subTest(sets=sets):
                self.state = self.folder / f"state{abs(hash(str(sets)))}"
                arguments = [word for s in sets for word in ("--set", s)]
                job = self.run_digits("--set", "run.epochs=14", "--set",
                                      "run.target_accuracy=0", *arguments)
                self.assertGreater(job["test_accuracy"], 0.9)


if __name__ == "__main__":
    harness.main()
