#!/usr/bin/env python3
"""Loads an export of a checkpoint in PyTorch, and measures its accuracy.

    tools/interop/torch_roundtrip.py EXPORT.safetensors
    tools/interop/torch_roundtrip.py EXPORT.safetensors --accuracy 0.9861

The first form loads the file with the public safetensors library, prints its
tensors, saves it again and compares every bit. The second then builds the
network of testdata/jobs/digits.yaml (or the same with batch norm), loads the
export with load_state_dict(strict=True), classifies the test images, and
expects the accuracy that Pipework showed, to one image.

Exit code: 0 fine; 1 something is wrong; 2 wrong use; 77 PyTorch or safetensors
is not installed here.
"""

import argparse
import os
import pathlib
import sys
import tempfile

SKIPPED = 77
DIGITS = pathlib.Path(__file__).parent.parent.parent / "testdata" / "digits"


def skip(reason):
    print("SKIPPED: torch_roundtrip: %s" % reason)
    sys.exit(SKIPPED)


def fail(problem):
    print("FAILED: torch_roundtrip: %s" % problem, file=sys.stderr)
    sys.exit(1)


try:
    import numpy
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    skip("%s; pip install torch safetensors numpy" % missing)


def bits(tensor):
    """As bytes: a NaN equals nothing."""
    return tensor.contiguous().numpy().tobytes()


def round_trip(path, tensors):
    """Saves and loads again with the public library: the same bits."""
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "copy.safetensors")
        save_file({name: t.contiguous() for name, t in tensors.items()}, copy)
        again = load_file(copy)
    if sorted(again) != sorted(tensors):
        fail("%s: other names after a round trip" % path)
    for name, tensor in tensors.items():
        other = again[name]
        if (tensor.shape, tensor.dtype, bits(tensor)) != (
                other.shape, other.dtype, bits(other)):
            fail("%s: %s is another after a round trip" % (path, name))


class SmallCnn(torch.nn.Module):
    """The built-in network small_cnn, as kernels/models/small_cnn.cc has it.

    Its sizes are those of the export.
    """

    def __init__(self, tensors):
        super().__init__()
        for name in ("conv1", "conv2", "conv3"):
            out, channels = tensors[name + ".weight"].shape[:2]
            setattr(self, name, torch.nn.Conv2d(channels, out, 3, padding=1))
        for number in (1, 2, 3):
            mean = tensors.get("bn%d.running_mean" % number)
            norm = (torch.nn.Identity() if mean is None else
                    torch.nn.BatchNorm2d(mean.shape[0]))
            setattr(self, "bn%d" % number, norm)
        for name in ("fc1", "fc2"):
            out, features = tensors[name + ".weight"].shape
            setattr(self, name, torch.nn.Linear(features, out))

    def forward(self, x):
        relu, pool = torch.relu, torch.nn.functional.max_pool2d
        x = relu(self.bn1(self.conv1(x)))
        x = pool(relu(self.bn2(self.conv2(x))), 2)
        x = pool(relu(self.bn3(self.conv3(x))), 2)
        x = relu(self.fc1(torch.flatten(x, 1)))
        return self.fc2(x)


def classify(model, data):
    """How many test images are classified right, and how many there are."""
    x = numpy.load(data / "test_x.npy").astype(numpy.float32) * 0.0625
    y = numpy.load(data / "test_y.npy").astype(numpy.int64)
    model.eval()
    with torch.no_grad():
        scores = model(torch.from_numpy(x))
    right = (scores.argmax(dim=1) == torch.from_numpy(y)).sum().item()
    return right, len(y)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("export")
    parser.add_argument("--accuracy", type=float,
                        help="what Pipework showed for the digits, 0 to 1")
    parser.add_argument("--data", type=pathlib.Path, default=DIGITS,
                        help="folder of the digits")
    args = parser.parse_args()

    try:
        tensors = load_file(args.export)
    except Exception as problem:  # the library has several kinds
        fail("%s: %s" % (args.export, problem))
    for name in sorted(tensors):
        print("%-28s %-14s %s" % (name, tensors[name].dtype,
                                  list(tensors[name].shape)))
    round_trip(args.export, tensors)
    print("saved and loaded again: the same bits")
    if args.accuracy is None:
        return

    model = SmallCnn(tensors)
    try:
        model.load_state_dict(tensors, strict=True)
    except RuntimeError as problem:
        fail("load_state_dict: %s" % problem)
    right, images = classify(model, args.data)
    print("accuracy in PyTorch: %.4f (%d of %d)" %
          (right / images, right, images))
    if abs(right - args.accuracy * images) > 1.001:
        fail("accuracy is %.4f, expected %.4f" %
             (right / images, args.accuracy))


if __name__ == "__main__":
    main()
