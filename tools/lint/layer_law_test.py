"""The layer law: who may include whom, read from the #include lines.

Bazel's package groups enforce the same between packages; but a header reached
through a dependency's dependency still compiles, and a test and the code beside
it are one package.
"""
import re
import unittest

import tree

# ---- areas -------------------------------------------------------------------
# A file belongs to the first area whose pattern matches its path.

AREAS = [
    ("proto basics", r"proto/(ids|status_macros|check|errors)\."),
    ("graph.proto", r"proto/graph\."),
    ("job.proto", r"proto/job\."),
    ("proto", r"proto/"),
    ("partitioner", r"partitioner/"),
    ("scheduler/versioning", r"scheduler/versioning/"),
    ("scheduler", r"scheduler/"),
    ("kernels/backend_registry", r"kernels/backend_registry\."),
    ("kernels/backend", r"kernels/backend\."),
    ("kernels/tensor", r"kernels/[^/]+$"),  # device, tensor, window, random
    ("kernels/ops", r"kernels/ops/"),
    ("kernels/reference", r"kernels/reference/"),
    ("kernels/cpu", r"kernels/cpu/"),
    ("kernels/cuda", r"kernels/cuda/"),
    # What a shape is made of: no back end, no mathematics.
    ("layer shapes",
     r"kernels/layers/([^/]*_shape|shape_[^/]*|args|window)\."),
    ("layer bodies", r"kernels/layers/"),
    ("kernels/models", r"kernels/models/"),
    ("kernels/optimizers", r"kernels/optimizers/"),
    ("kernels/bench", r"kernels/bench/"),
    ("job_store reader",
     r"daemon/coordinator/(job_store_reader|job_store)\.h$"),
    ("cli", r"cli/"),
    ("tools", r"tools/"),
] + [(f"daemon/{name}", rf"daemon/{name}/") for name in (
    "base", "metrics", "spec", "transport", "data", "checkpoint", "oracle",
    "profiler", "executor", "runner", "node", "coordinator", "testing", "e2e")]

# ---- the law -----------------------------------------------------------------
# row: the areas that it may include besides itself. Tests may include all.

PROTO = {"proto basics", "graph.proto", "job.proto", "proto"}
INTERFACE = {"kernels/tensor", "kernels/backend"}
PURE = PROTO | {"partitioner", "scheduler", "scheduler/versioning"}
# What every part of the daemon may use from outside daemon/.
DAEMON = PURE | INTERFACE | {"layer shapes", "kernels/models",
                             "kernels/optimizers"}
BODIES = {"layer bodies", "kernels/backend_registry", "kernels/ops"}
RIM = {"daemon/base", "daemon/metrics"}
FILES = {"daemon/checkpoint", "daemon/data", "daemon/spec"}

MAY_INCLUDE = {
    "proto basics": set(),
    "graph.proto": {"proto basics"},
    "job.proto": {"proto basics", "graph.proto"},
    "proto": PROTO,
    "partitioner": PROTO,
    "scheduler/versioning": PROTO | {"scheduler"},
    "scheduler": PURE,

    "kernels/tensor": {"proto basics"},
    "kernels/ops": {"proto basics", "kernels/tensor"},
    "kernels/backend": {"proto basics", "kernels/tensor", "kernels/ops"},
    "kernels/reference": {"proto basics", "kernels/ops"} | INTERFACE,
    "kernels/cpu": {"proto basics", "kernels/ops"} | INTERFACE,
    "kernels/cuda": {"proto basics", "kernels/ops"} | INTERFACE,
    "kernels/backend_registry":
        {"proto basics", "kernels/reference", "kernels/cpu",
         "kernels/cuda"} | INTERFACE,
    "layer shapes": {"proto basics", "graph.proto", "kernels/tensor"},
    "layer bodies": {"proto basics", "graph.proto", "kernels/ops",
                     "layer shapes"} | INTERFACE,
    "kernels/models": {"proto basics", "graph.proto", "kernels/tensor",
                       "layer shapes"},
    "kernels/optimizers": {"proto basics", "job.proto",
                           "kernels/ops"} | INTERFACE,

    "daemon/base": PROTO,
    "daemon/metrics": PROTO | {"daemon/base"},
    "daemon/transport": DAEMON | RIM,
    "daemon/checkpoint": DAEMON | RIM,
    "daemon/data": DAEMON | RIM,
    # A spec names files, and its check opens them.
    "daemon/spec": DAEMON | RIM | {"daemon/data"},
    "daemon/executor": DAEMON | RIM | FILES | BODIES | {"daemon/transport"},
    "daemon/profiler": DAEMON | RIM | FILES | BODIES | {"daemon/transport"},
    # It shares nothing with the executor but layers and data.
    "daemon/oracle":
        (DAEMON - {"scheduler/versioning"}) | RIM | FILES | BODIES,
    "daemon/runner":
        DAEMON | RIM | FILES |
        {"daemon/transport", "daemon/executor", "daemon/profiler",
         "daemon/oracle"},
    "daemon/node":
        DAEMON | RIM | FILES |
        {"daemon/transport", "daemon/executor", "daemon/profiler",
         "daemon/oracle"},
    # Never the executor or a back end.
    "daemon/coordinator": DAEMON | RIM | FILES | {"job_store reader"},
    "job_store reader": PROTO | RIM,

    "cli": PURE | {"layer shapes", "kernels/models", "daemon/spec",
                   "daemon/checkpoint", "job_store reader"},
}

# ---- outside headers ---------------------------------------------------------

PURE_FOLDERS = ("partitioner/", "scheduler/")
# No threads, clocks, files, sockets, logs or devices in the pure folders.
IMPURE = re.compile(
    r"^(thread|mutex|shared_mutex|condition_variable|future|atomic|chrono|"
    r"fstream|filesystem|iostream|cstdio|ctime|stdio\.h|time\.h|unistd\.h|"
    r"pthread\.h|fcntl\.h|sys/.*|netinet/.*|random_device|spdlog/.*|grpcpp/.*|"
    r"sqlite3\.h|yaml-cpp/.*|dnnl.*|cuda.*|ucp/.*|absl/synchronization/.*|"
    r"absl/time/clock\.h)$")

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)


def area(path):
    for name, pattern in AREAS:
        if re.match(pattern, path):
            return name
    return None


def includes(content):
    """(line number, path, quoted?) of every #include."""
    for match in INCLUDE.finditer(content):
        line = content.count("\n", 0, match.start(2)) + 1
        yield line, match.group(2), match.group(1) == '"'


def problem(name, path, quoted):
    """Why `name` may not include `path`; None if it may."""
    row, column = area(name), area(path)
    if tree.is_test(name):
        return None
    if column and tree.is_test(path):
        return "is for tests only"
    if name.endswith(".cu"):
        # A kernel runs under nvcc alone, and on the CPU for its tests.
        if quoted and not path.startswith("kernels/cuda/"):
            return "a .cu file includes CUDA and headers of kernels/cuda only"
        return None
    if name.startswith(PURE_FOLDERS) and IMPURE.match(path):
        return "this folder is pure: no threads, clocks, files or devices"
    if path.startswith("spdlog/") and not name.startswith(("daemon/", "cli/")):
        return "only daemon/ and cli/ log; return a status"
    if path.startswith("CLI/") and not (
            name.startswith(("daemon/", "cli/", "tools/"))):
        return "flags are read in daemon/ and cli/ only"
    if not quoted or column is None or row is None or row == "tools":
        return None
    if column == "tools":
        return "tools/ is for tests and developers"
    if row == column or column in MAY_INCLUDE.get(row, set()):
        return None
    return f"{row} may not include {column}"


def problems(root):
    found = []
    for name in tree.files(root):
        if not name.endswith((".h", ".cc", ".cu", ".cuh")):
            continue
        for line, path, quoted in includes(tree.text(root, name)):
            why = problem(name, path, quoted)
            if why:
                found.append(f"{name}:{line}: includes {path}: {why}")
    return found


class LayerLaw(tree.TreeTest):
    PROBLEMS = problems

    def test_this_tree(self):
        self.expect_clean_tree()

    def test_each_forbidden_arrow_is_seen(self):
        for name, path in [
                ("proto/ids.h", "proto/graph.pb.h"),
                ("partitioner/plan.h", "scheduler/program.h"),
                ("partitioner/algorithms/dp.cc", "scheduler/versioning/stash.h"),
                ("scheduler/compile.cc", "kernels/tensor.h"),
                ("scheduler/action.h", "daemon/base/clock.h"),
                ("kernels/tensor.h", "proto/plan.pb.h"),
                ("kernels/ops/relu.h", "proto/graph.pb.h"),
                ("kernels/cpu/relu.cc", "kernels/reference/relu.h"),
                ("kernels/reference/relu.cc", "kernels/cpu/stream.h"),
                ("kernels/layers/relu.cc", "kernels/backend_registry.h"),
                ("kernels/layers/relu.cc", "kernels/cpu/cpu_backend.h"),
                ("kernels/layers/relu_shape.cc", "kernels/backend.h"),
                ("kernels/models/lenet.cc", "kernels/layers/conv2d.h"),
                ("kernels/optimizers/sgd.cc", "proto/graph.pb.h"),
                ("daemon/base/log.cc", "daemon/metrics/counter.h"),
                ("daemon/data/npy.cc", "daemon/executor/stage_executor.h"),
                ("daemon/data/npy.cc", "daemon/spec/spec.h"),
                ("daemon/oracle/serial.cc", "scheduler/versioning/stashing.h"),
                ("daemon/oracle/serial.cc", "daemon/transport/transport.h"),
                ("daemon/executor/a.cc", "daemon/oracle/serial.h"),
                ("daemon/coordinator/a.cc", "daemon/executor/a.h"),
                ("daemon/coordinator/a.cc", "kernels/backend_registry.h"),
                ("daemon/node/a.cc", "daemon/testing/mini_cluster.h"),
                ("daemon/node/a.cc", "kernels/cpu/cpu_backend.h"),
                ("cli/commands/plan.cc", "kernels/layers/conv2d.h"),
                ("cli/commands/plan.cc", "kernels/tensor.h"),
                ("cli/commands/jobs.cc", "daemon/coordinator/services.h"),
                ("cli/commands/jobs.cc", "daemon/base/log.h"),
                ("proto/text_file.cc", "tools/bazel/golden.h"),
        ]:
            with self.subTest(name=name, includes=path):
                found = self.of({name: f'#include "{path}"\n'})
                self.assertEqual(len(found), 1, found)
                self.assertIn(f"{name}:1: includes {path}", found[0])

    def test_what_the_law_allows_passes(self):
        for name, path in [
                ("scheduler/planning/planning.cc", "partitioner/partition.h"),
                ("kernels/backend.h", "kernels/ops/relu.h"),
                ("kernels/backend_registry.cc", "kernels/cpu/cpu_backend.h"),
                ("kernels/layers/relu.cc", "kernels/layers/relu_shape.h"),
                ("kernels/ops/relu_test.cc", "kernels/backend_registry.h"),
                ("daemon/executor/a.cc", "kernels/layers/layer.h"),
                ("daemon/oracle/serial.cc", "kernels/layers/layer.h"),
                ("daemon/e2e/a_test.cc", "daemon/testing/mini_cluster.h"),
                ("cli/commands/plan.cc", "kernels/layers/graph_shape.h"),
                ("cli/commands/jobs.cc", "daemon/coordinator/job_store.h"),
                ("proto/ids_test.cc", "tools/bazel/golden.h"),
        ]:
            with self.subTest(name=name, includes=path):
                self.assertEqual(self.of({name: f'#include "{path}"\n'}), [])

    def test_outside_headers(self):
        for name, path in [
                ("partitioner/a.cc", "thread"),
                ("scheduler/a.cc", "absl/time/clock.h"),
                ("kernels/a.cc", "spdlog/spdlog.h"),
                ("kernels/a.cc", "CLI/CLI.hpp"),
        ]:
            with self.subTest(name=name, includes=path):
                self.assertEqual(len(self.of({name: f"#include <{path}>\n"})), 1)
        self.assertEqual(
            len(self.of({"kernels/cuda/a.cu": '#include "kernels/tensor.h"'})),
            1)
        self.assertEqual(
            self.of({"kernels/cuda/a.cu": '#include "kernels/cuda/a.h"'}), [])


if __name__ == "__main__":
    unittest.main()
