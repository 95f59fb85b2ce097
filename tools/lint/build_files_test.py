"""BUILD files: package groups for visibility, and no file left out."""
import re
import unittest
from pathlib import Path

import tree

# Stand-ins for outside repositories, which Bazel must see from everywhere.
OUTSIDE = ("tools/bazel/rules_cc/", "tools/bazel/coverage_tools/",
           "tools/bazel/system/")
BUILD = "BUILD.bazel"
SOURCES = (".h", ".cc", ".cu", ".proto")


def without_comments(content):
    return re.sub(r"#.*", "", content)


def problems(root):
    names = [n for n in tree.files(root) if not n.startswith(OUTSIDE)]
    builds = {str(Path(n).parent): without_comments(tree.text(root, n))
              for n in names if Path(n).name == BUILD}
    groups = set(re.findall(r'package_group\(\s*name = "([^"]+)"',
                            builds.get(".", "")))
    found = []

    for folder, content in sorted(builds.items()):
        where = BUILD if folder == "." else f"{folder}/{BUILD}"
        if "//visibility:public" in content:
            found.append(f"{where}: //visibility:public; name a package group "
                         "of the root BUILD.bazel")
        if folder == ".":
            continue
        default = re.search(
            r"package\([^)]*default_visibility = \[([^\]]*)\]", content)
        if default is None:
            found.append(f"{where}: no default_visibility; name the folder's "
                         "package group")
        for lists in re.findall(r"visibility = \[([^\]]*)\]", content):
            for label in re.findall(r'"([^"]+)"', lists):
                if label == "//visibility:private" or neighbour(folder, label):
                    continue
                if not (label.startswith("//:") and label[3:] in groups):
                    found.append(f"{where}: visibility {label} is not a "
                                 "package group of the root BUILD.bazel")

    for name in names:
        if not name.endswith(SOURCES):
            continue
        folder = Path(name).parent
        while str(folder) not in builds and str(folder) != ".":
            folder = folder.parent
        content = builds.get(str(folder), "")
        relative = str(Path(name).relative_to(folder))
        if str(folder) == ".":
            found.append(f"{name}: no {BUILD} in its folder")
        elif not listed(content, relative):
            found.append(f"{name}: in no target of {folder}/{BUILD}")
    return found


def neighbour(folder, label):
    """A package under the same top folder: narrower than any group."""
    match = re.fullmatch(r"//([^:]+):__(pkg|subpackages)__", label)
    return match and match.group(1).split("/")[0] == folder.split("/")[0]


def listed(content, relative):
    if f'"{relative}"' in content or f'":{relative}"' in content:
        return True
    for inner in re.findall(r"glob\(\s*\[([^\]]*)\]", content):
        for pattern in re.findall(r'"([^"]+)"', inner):
            regex = re.escape(pattern).replace(r"\*\*/", "(.*/)?").replace(
                r"\*\*", ".*").replace(r"\*", "[^/]*")
            if re.fullmatch(regex, relative):
                return True
    # [cc_library(name = op, srcs = [op + ".cc"]) for op in ["relu", ...]]
    for suffix in re.findall(r'\+ "([^"]+)"', content):
        stem = relative[:-len(suffix)]
        if relative.endswith(suffix) and f'"{stem}"' in content:
            return True
    return False


class BuildFiles(tree.TreeTest):
    PROBLEMS = problems
    ROOT_BUILD = 'package_group(\n    name = "may_use_a",\n)\n'
    PACKAGE = 'package(default_visibility = ["//:may_use_a"])\n'

    def a(self, build, files=()):
        return self.of({BUILD: self.ROOT_BUILD, f"a/{BUILD}": build,
                        **{f"a/{f}": "" for f in files}})

    def test_this_tree(self):
        self.expect_clean_tree()

    def test_a_package_with_its_group_passes(self):
        self.assertEqual(self.a(self.PACKAGE), [])

    def test_public_targets_are_refused(self):
        self.assertTrue(self.a(
            self.PACKAGE + 'visibility = ["//visibility:public"]\n'))
        self.assertTrue(self.a(
            'package(default_visibility = ["//visibility:public"])\n'))

    def test_a_package_without_a_group_is_refused(self):
        self.assertEqual(len(self.a("")), 1)

    def test_an_unknown_group_is_refused(self):
        self.assertTrue(self.a(
            self.PACKAGE + 'visibility = ["//:may_use_b"]\n'))
        self.assertTrue(self.a(
            self.PACKAGE + 'visibility = ["//b:__pkg__"]\n'))
        self.assertEqual(self.a(
            self.PACKAGE + 'visibility = ["//a/c:__pkg__"]\n'), [])

    def test_a_source_in_no_target_is_named(self):
        self.assertEqual(self.a(self.PACKAGE, ["x.cc"]),
                         [f"a/x.cc: in no target of a/{BUILD}"])
        self.assertEqual(self.a(self.PACKAGE + 'srcs = ["x.cc"]', ["x.cc"]), [])
        self.assertEqual(
            self.a(self.PACKAGE + 'srcs = glob(["*.cc"])', ["x.cc"]), [])
        loop = '[pipe_test(srcs = [op + "_test.cc"]) for op in ["x"]]'
        self.assertEqual(self.a(self.PACKAGE + loop, ["x_test.cc"]), [])
        self.assertTrue(self.a(self.PACKAGE + loop, ["y_test.cc"]))
        self.assertEqual(self.of({"b/x.cc": ""}),
                         [f"b/x.cc: no {BUILD} in its folder"])


if __name__ == "__main__":
    unittest.main()
