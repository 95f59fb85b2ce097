"""A broken pipeline is caught: `verify` must fail on each mistake."""
import harness
from harness import JOBS, pipectl_json


class Broken(harness.Case):

    def caught(self, what, *arguments):
        code, verdict = pipectl_json("verify", JOBS / "mlp.yaml", "--break",
                                     what, *arguments)
        self.assertEqual((code, verdict.get("kind"), verdict.get("equal")),
                         (1, "Verification", False), verdict)
        self.assertTrue(verdict["first_difference"])

    def test_a_backward_on_another_version_than_its_forward(self):
        self.caught("version", "--schedule", "1f1b", "--stages", 3)

    def test_labels_of_another_minibatch(self):
        self.caught("label", "--schedule", "1f1b", "--stages", 2)

    def test_a_gradient_divided_twice(self):
        self.caught("scale", "--schedule", "flush", "--stages", 2)

    def test_gradients_added_in_another_order(self):
        self.caught("order", "--schedule", "1f1b", "--replicas", "3,1")

    def test_vertical_sync_that_reads_the_newest(self):
        self.caught("newest", "--schedule", "1f1b", "--weights",
                    "vertical_sync", "--stages", 3)

    def test_no_stashing_that_stashes(self):
        self.caught("stash", "--schedule", "1f1b", "--weights", "none",
                    "--stages", 3)

    def test_two_versions_of_which_the_newer_is_read(self):
        self.caught("newest", "--schedule", "two_version", "--stages", 2)

    def test_unbroken_they_pass(self):
        for arguments in (("1f1b", "--weights", "stash"),
                          ("1f1b", "--weights", "vertical_sync"),
                          ("1f1b", "--weights", "none"), ("two_version",)):
            with self.subTest(arguments=arguments):
                code, verdict = pipectl_json(
                    "verify", JOBS / "mlp.yaml", "--replicas", "3,1",
                    "--schedule", *arguments)
                self.assertEqual((code, verdict.get("equal")), (0, True),
                                 verdict)


if __name__ == "__main__":
    harness.main()
