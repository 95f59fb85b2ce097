"""LeNet-5 on MNIST files, where there are some."""
import os
from pathlib import Path

import harness
from harness import JOBS

FILES = ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")


def folder():
    """The folder of the files: $PIPEWORK_MNIST_DIR, or shared/data/mnist beside
    the checkout."""
    named = os.environ.get("PIPEWORK_MNIST_DIR")
    places = [Path(named)] if named else []
    # In a sandbox this file is a link into the checkout.
    checkout = Path(__file__).resolve().parents[2]
    places.append(checkout.parent / "shared" / "data" / "mnist")
    for place in places:
        if all((place / name).is_file() for name in FILES):
            return place
    return None


class Mnist(harness.Case):

    def test_two_three_and_four_stages_reach_98_5_percent(self):
        data = folder()
        if data is None:
            self.skipTest("no MNIST files: set PIPEWORK_MNIST_DIR to a folder "
                          f"with {' and '.join(FILES)}")
        for stages in (2, 3, 4):
            with self.subTest(stages=stages):
                self.state = self.folder / f"state{stages}"
                code, job = self.local_run(
                    JOBS / "mnist.yaml", "--set", f"data.dir={data}", "--set",
                    f"pipeline.stages={stages}", timeout=400)
                self.assertEqual(code, 0, job)
                self.assertGreaterEqual(job["test_accuracy"], 0.985)
                self.assertLessEqual(len(job["epochs"]), 10)


if __name__ == "__main__":
    harness.main()
