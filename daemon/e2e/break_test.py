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

    def test_unbroken_it_passes(self):
        code, verdict = pipectl_json("verify", JOBS / "mlp.yaml",
                                     "--schedule", "1f1b", "--replicas", "3,1")
        self.assertEqual((code, verdict.get("equal")), (0, True), verdict)


if __name__ == "__main__":
    harness.main()
