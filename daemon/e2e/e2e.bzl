"""Tests of whole jobs: real processes, driven by Python."""

def e2e_test(
        name,
        size = "medium",
        tags = [],
        data = [],
        testing_only = False,
        file = None,
        cases = []):
    """Runs a unittest file, <name>.py, beside the four programs.

    They take the machine for themselves ("exclusive"), and the sanitizers do
    not run them ("no_san"): what they start has tests of its own there.

    Args:
      name: the target.
      size: as for cc_test.
      tags: more tags, such as "full".
      data: files that it reads.
      testing_only: needs --config=testing (failpoints, --break).
      file: the stem of the file where that is another.
      cases: classes of the file that are run; left out: all.
    """
    file = file or name
    native.sh_test(
        name = name,
        srcs = ["run.sh"],
        args = ["$(location %s.py)" % file] + cases,
        data = data + [
            file + ".py",
            "harness.py",
            "//cli:programs",
            "//testdata:e2e",
        ],
        size = size,
        tags = tags + ["exclusive", "e2e", "no_san"] +
               (["testing_only"] if testing_only else []),
        target_compatible_with = select({
            "//:testing": [],
            "//conditions:default": ["//tools/bazel:never"],
        }) if testing_only else [],
    )
