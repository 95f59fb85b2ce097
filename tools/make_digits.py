#!/usr/bin/env python3
"""Makes testdata/digits/{train,test}_{x,y}.npy: make_digits.py [DIR]

The source is the test part of "Optical Recognition of Handwritten Digits"
(E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998, CC BY 4.0,
doi 10.24432/C50P49), which scikit-learn ships as load_digits: 1,797 images of
8x8 pixels from 0 to 16, by 13 writers.

The writers come one after another in the file, so its last images are other
hands than its first. They are shuffled once, by NumPy's RandomState(SEED),
whose permutation never changes; then the first 1,437 train and 360 test.

    x  uint8 [N,1,8,8]   one channel, rows, columns
    y  int32 [N]         the digit

Needs scikit-learn and NumPy. The files are in the tree, so only a change of
this script needs a new run; it writes the same bytes each time.
"""
import sys
from pathlib import Path

SEED = 20240501
TRAIN = 1437


def main(folder):
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = digits.images.astype(np.uint8).reshape(-1, 1, 8, 8)
    y = digits.target.astype(np.int32)
    assert x.shape == (1797, 1, 8, 8) and (x == digits.images[:, None]).all()

    order = np.random.RandomState(SEED).permutation(len(x))
    parts = {"train": order[:TRAIN], "test": order[TRAIN:]}
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in parts.items():
        for name, values in (("x", x), ("y", y)):
            path = folder / f"{part}_{name}.npy"
            np.save(path, np.ascontiguousarray(values[rows]))
            counts = np.bincount(y[rows], minlength=10).tolist()
            print(f"{path}: {values.dtype} {list(values[rows].shape)}"
                  + (f", of each digit {counts}" if name == "y" else ""))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else
         Path(__file__).resolve().parent.parent / "testdata" / "digits")
