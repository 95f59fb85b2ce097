#!/usr/bin/env python3
"""Makes the small files under testdata/data: make_test_data.py [DIR]

    iris.csv      150 flowers: 4 lengths and the kind as a number. R. A. Fisher,
                  "Iris", UCI Machine Learning Repository, 1936, CC BY 4.0,
                  doi 10.24432/C56C76, as scikit-learn ships it; shuffled by
                  NumPy's RandomState(SEED)
    blobs.npz     240 points of three round clouds in the plane, deflated
    blobs_plain.npz  the first 8 of them, stored
    ramp-idx3-ubyte, ramp-idx3-ubyte.gz, ramp-idx1-ubyte
                  6 images of 4x3 pixels that count up, and their labels
    v1.npy, v2.npy, v3.npy  [[0, 1, 2], [3, 4, 5]] as f8, i2 and f4, one for
                  each version of the format

Needs scikit-learn and NumPy. The files are in the tree, so only a change of
this script needs a new run.
"""
import gzip
import io
import struct
import sys
from pathlib import Path

SEED = 20240501


def make_iris(path):
    import numpy as np
    from sklearn.datasets import load_iris

    iris = load_iris()
    order = np.random.RandomState(SEED).permutation(len(iris.target))
    lines = ["sepal_length,sepal_width,petal_length,petal_width,kind"]
    for row in order:
        values = ["%.1f" % v for v in iris.data[row]]
        lines.append(",".join(values + [str(iris.target[row])]))
    path.write_text("\n".join(lines) + "\n")


def blobs():
    import numpy as np

    random = np.random.RandomState(SEED)
    centres = np.array([[0.0, 2.0], [-2.0, -1.0], [2.0, -1.0]])
    y = np.arange(240) % 3
    x = centres[y] + 0.5 * random.randn(240, 2)
    return x.astype(np.float32), y.astype(np.int64)


def make_npy(path, array, version):
    import numpy as np

    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    path.write_bytes(out.getvalue())


def make_idx(folder):
    images = struct.pack(">BBBB3I", 0, 0, 8, 3, 6, 4, 3) + bytes(range(72))
    labels = struct.pack(">BBBBI", 0, 0, 8, 1, 6) + bytes([0, 1, 2, 2, 1, 0])
    (folder / "ramp-idx3-ubyte").write_bytes(images)
    (folder / "ramp-idx1-ubyte").write_bytes(labels)
    (folder / "ramp-idx3-ubyte.gz").write_bytes(gzip.compress(images, mtime=0))


def main(folder):
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    make_iris(folder / "iris.csv")
    x, y = blobs()
    np.savez_compressed(folder / "blobs.npz", x=x, y=y)
    np.savez(folder / "blobs_plain.npz", x=x[:8], y=y[:8])
    make_idx(folder)
    small = np.arange(6).reshape(2, 3)
    make_npy(folder / "v1.npy", small.astype("<f8"), (1, 0))
    make_npy(folder / "v2.npy", small.astype("<i2"), (2, 0))
    make_npy(folder / "v3.npy", small.astype("<f4"), (3, 0))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else
         Path(__file__).resolve().parent.parent / "testdata" / "data")
