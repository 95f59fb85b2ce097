"""`pipectl verify`: the pipeline against the serial oracle, bit for bit."""
import harness
from harness import JOBS, pipectl_json

SPECS = ("mlp.yaml", "cnn_bn.yaml", "resnet_dropout.yaml")
# Every pair of schedule and weights that can be run.
PAIRS = (("gpipe", "flush"), ("model_parallel", "stash"),
         ("two_version", "two_version"), ("1f1b", "vertical_sync"),
         ("1f1b", "none"), ("flush", "flush"), ("1f1b", "stash"))
SHAPES = (("--stages", 1), ("--stages", 2), ("--stages", 3), ("--stages", 4),
          ("--replicas", "2,1"), ("--replicas", "1,2"), ("--replicas", "3,1"),
          ("--replicas", "1,3"), ("--replicas", "1,2,1"),
          ("--set", "pipeline.stages=[{replicas: 2, shares: [2, 1]}, {}]"),
          ("--set", "pipeline.stages=[{}, {replicas: 2, shares: [1, 3]}]"))


class Case(harness.Case):

    def verify(self, spec, *arguments):
        code, verdict = pipectl_json("verify", JOBS / spec, *arguments)
        self.assertEqual((code, verdict.get("equal")), (0, True), verdict)
        self.assertTrue(verdict["layers"])
        for layer in verdict["layers"]:
            self.assertTrue(layer["bit_equal"], layer)
            self.assertEqual(layer["max_abs_difference"], 0)
        return verdict

    def verify_pair(self, spec, schedule, weights, *arguments):
        """Synchronous schedules must be plain SGD, whatever their logs say."""
        with self.subTest(spec=spec, schedule=schedule, weights=weights,
                          arguments=arguments):
            verdict = self.verify(spec, "--schedule", schedule, "--weights",
                                  weights, *arguments)
            self.assertEqual((verdict["schedule"], verdict["weights"]),
                             (schedule, weights))
            if schedule in ("gpipe", "flush", "model_parallel"):
                self.assertEqual(verdict["oracle"], "plain")
            elif schedule == "two_version" or "1" not in map(str, arguments):
                self.assertEqual(verdict["oracle"], "replay")


class Verify(Case):

    def test_stashing_equals_the_replayed_version_log(self):
        for spec in SPECS:
            for stages in (2, 4):
                with self.subTest(spec=spec, stages=stages):
                    self.verify(spec, "--schedule", "1f1b", "--stages", stages)

    def test_flush_equals_plain_sgd(self):
        for spec in SPECS:
            for stages in (1, 3):
                with self.subTest(spec=spec, stages=stages):
                    verdict = self.verify(spec, "--schedule", "flush",
                                          "--stages", stages)
                    self.assertEqual(verdict["oracle"], "plain")

    def test_one_stage_or_one_in_flight_is_plain_sgd(self):
        self.assertEqual(self.verify("mlp.yaml", "--schedule", "1f1b",
                                     "--stages", 1)["oracle"], "plain")
        verdict = self.verify("cnn_bn.yaml", "--schedule", "1f1b", "--stages",
                              3, "--set", "pipeline.in_flight=1")
        self.assertEqual(verdict["oracle"], "plain")

    def test_replicated_stages(self):
        for spec, replicas in (("mlp.yaml", "2,1"), ("cnn_bn.yaml", "1,2,1"),
                               ("resnet_dropout.yaml", "3,1"),
                               ("mlp.yaml", "1,3")):
            for schedule in ("1f1b", "flush"):
                with self.subTest(spec=spec, replicas=replicas,
                                  schedule=schedule):
                    self.verify(spec, "--schedule", schedule, "--replicas",
                                replicas)

    def test_uneven_shares(self):
        two_to_one = "{replicas: 2, shares: [2, 1]}"
        for spec, stages, replicas in (
                ("mlp.yaml", f"[{two_to_one}, {{replicas: 1}}]", "2 (2:1),1"),
                ("cnn_bn.yaml", f"[{{replicas: 1}}, {two_to_one}]",
                 "1,2 (2:1)")):
            for schedule, oracle in (("1f1b", "replay"), ("flush", "plain")):
                with self.subTest(spec=spec, stages=stages,
                                  schedule=schedule):
                    verdict = self.verify(
                        spec, "--schedule", schedule, "--set",
                        f"pipeline.stages={stages}")
                    self.assertEqual(verdict["oracle"], oracle)
                    self.assertEqual(verdict["replicas"], replicas)

    def test_a_cut_across_branches_equals_the_oracle_too(self):
        # The skip of the second group (its convolution and batch norm) runs
        # after the other branch, in a stage of its own with the sum.
        first = ("{layers: [conv1..group1.block1.relu2, "
                 "group2.block1.conv1..group2.block1.bn2]}")
        cuts = (f"pipeline.stages=[{first}, {{layers: [group2.block1.down.."
                "group2.block1.down_bn]}, {layers: [group2.block1.add..loss]}]")
        for schedule in ("1f1b", "flush"):
            with self.subTest(schedule=schedule):
                verdict = self.verify("resnet_dropout.yaml", "--schedule",
                                      schedule, "--set", cuts)
                names = [layer["name"] for layer in verdict["layers"]]
                self.assertLess(names.index("group2.block1.conv2"),
                                names.index("group2.block1.down"))

    def test_impossible_pairs_are_refused_with_the_reason(self):
        for arguments, says in (
                (("--schedule", "1f1b", "--weights", "flush"),
                 "expected stash or vertical_sync or none"),
                (("--schedule", "flush", "--weights", "stash"),
                 "expected flush"),
                (("--schedule", "gpipe", "--weights", "none"),
                 "expected flush"),
                (("--schedule", "two_version", "--weights", "stash"),
                 "expected two_version"),
                (("--schedule", "model_parallel", "--weights", "none"),
                 "expected stash"),
                (("--schedule", "1f1b", "--microbatches", "4"),
                 "it takes whole minibatches"),
                (("--schedule", "two_version", "--microbatches", "2",
                  "--stages", "3"), "the depth of the pipeline"),
                (("--schedule", "interleaved"),
                 "run one of 1f1b, model_parallel, gpipe, flush"),
                (("--schedule", "2f2b"), "known schedules: 1f1b")):
            with self.subTest(arguments=arguments):
                code, error = pipectl_json("verify", JOBS / "mlp.yaml",
                                           *arguments)
                self.assertEqual((code, error["kind"]), (3, "Error"))
                self.assertIn(says, " ".join([error["message"]] + [
                    p["expected"] for p in error["problems"]]))


class Sample(Case):
    """Each pair on each network once, on shapes that take turns."""

    def test_pairs(self):
        shape = 0
        for schedule, weights in PAIRS[:5]:
            for spec in SPECS:
                shape = (shape + 3) % len(SHAPES)
                self.verify_pair(spec, schedule, weights, *SHAPES[shape])

    # An epoch has 30 steps, the last of 45 samples instead of 48: drains are
    # passed, and units are of different size.
    def test_over_the_end_of_an_epoch(self):
        for schedule, weights in PAIRS[2:5]:
            self.verify_pair("mlp.yaml", schedule, weights, "--replicas",
                             "2,1", "--steps", 64)


class Matrix(Case):
    """Every pair on every network and shape: minutes, in tools/check --full."""

    def test_matrix(self):
        for schedule, weights in PAIRS:
            for spec in SPECS:
                for shape in SHAPES:
                    self.verify_pair(spec, schedule, weights, *shape)

    def test_over_the_end_of_an_epoch(self):
        for schedule, weights in PAIRS:
            for spec in SPECS:
                self.verify_pair(spec, schedule, weights, "--replicas", "2,1",
                                 "--steps", 64)

    def test_accumulated(self):
        for schedule, weights in PAIRS:
            self.verify_pair("cnn_bn.yaml", schedule, weights, "--replicas",
                             "1,2,1", "--set", "batch.accumulate=2")


if __name__ == "__main__":
    harness.main()
