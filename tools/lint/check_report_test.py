"""The sum that tools/check prints: nothing that failed is left out of it."""
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

import tree

sys.path.insert(0, str(tree.ROOT / "tools"))
import check_report  # noqa: E402

ONE_OF_EACH = """<testsuites><testsuite>
<testcase name="good"/>
<testcase name="bad"><failure message=""/></testcase>
<testcase name="absent"><skipped message="no GPU"/></testcase>
</testsuite></testsuites>"""
ONE_GOOD = '<testsuites><testsuite><testcase name="a"/></testsuite></testsuites>'


def finished(code):
    return {"id": {"buildFinished": {}}, "finished": {"exitCode": {"code": code}}}


class CheckReport(unittest.TestCase):
    def sum_of(self, events=(), files=None, xml=None, status="PASSED"):
        """(last line, exit code, all lines) for these inputs."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            events = list(events)
            if xml is not None:
                (root / "test.xml").write_text(xml)
                events.insert(0, {
                    "id": {"testResult": {"label": "//a:a_test"}},
                    "testResult": {"status": status, "testActionOutput": [
                        {"name": "test.xml",
                         "uri": (root / "test.xml").as_uri()}]}})
            if events:
                (root / "11 tests.bep").write_text(
                    "".join(json.dumps(e) + "\n" for e in events))
            for name, content in (files or {}).items():
                (root / name).write_text(content)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                code = check_report.main(root)
            lines = out.getvalue().strip().splitlines()
            return lines[-1], code, lines

    def test_cases_are_counted_and_not_programs(self):
        last, code, lines = self.sum_of([finished(3)], xml=ONE_OF_EACH,
                                        status="FAILED")
        self.assertEqual(last, "1 passed, 1 failed")
        self.assertEqual(code, 1)
        self.assertIn("    1  no GPU", lines)

    def test_all_good_is_zero(self):
        last, code, _ = self.sum_of([finished(0)], xml=ONE_GOOD)
        self.assertEqual((last, code), ("1 passed, 0 failed", 0))

    def test_a_program_that_fails_after_its_last_case_counts(self):
        for status in ("FAILED", "TIMEOUT"):
            last, code, _ = self.sum_of([finished(3)], xml=ONE_GOOD,
                                        status=status)
            self.assertEqual((last, code), ("1 passed, 1 failed", 1))

    def test_what_cannot_be_built_counts_once(self):
        broken = {"id": {"targetCompleted": {"label": "//a:x"}},
                  "completed": {}}
        last, _, _ = self.sum_of([broken, broken, finished(1)])
        self.assertEqual(last, "0 passed, 1 failed")
        skipped = {"id": {"targetCompleted": {"label": "//a:x"}},
                   "aborted": {"reason": "SKIPPED"}}
        last, _, _ = self.sum_of([skipped, finished(0)])
        self.assertEqual(last, "0 passed, 0 failed")

    def test_a_build_file_that_cannot_be_read_counts(self):
        progress = {"id": {"progress": {}}, "progress": {
            "stderr": "x\nERROR: package contains errors: a/b\n"}}
        last, _, _ = self.sum_of([progress, finished(1)])
        self.assertEqual(last, "0 passed, 1 failed")

    def test_bazel_ending_badly_or_early_counts(self):
        self.assertEqual(self.sum_of([finished(37)])[0], "0 passed, 1 failed")
        self.assertEqual(self.sum_of([{"id": {"started": {}}}])[0],
                         "0 passed, 1 failed")
        # 4: no test matched the filters.
        self.assertEqual(self.sum_of([finished(4)])[0], "0 passed, 0 failed")

    def test_the_output_of_other_scripts_counts(self):
        last, code, lines = self.sum_of(files={
            "lint": "FAILED: stem: x\n    y\n4 passed, 1 failed\n",
            "own": "FAILED: packages\n"})
        self.assertEqual((last, code), ("4 passed, 2 failed", 1))
        self.assertIn("    stem: x", lines)
        self.assertEqual(self.sum_of(files={"fuzz": "Killed\n"})[0],
                         "0 passed, 1 failed")


if __name__ == "__main__":
    unittest.main()
