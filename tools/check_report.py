"""Sums up what tools/check ran: check_report.py FOLDER

FOLDER holds Bazel's build events (*.bep: one JSON object a line), the output of
tools/lint/run (lint) and of tools/fuzz (fuzz), failures of tools/check itself
(own), and what this machine lacks (absent).
"""
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlparse

BAD_PACKAGE = re.compile(r"^ERROR: package contains errors: (\S+)", re.MULTILINE)
LAST_LINE = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)


class Report:
    def __init__(self):
        self.passed = 0
        self.failures = []       # one text for each failed case
        self.skipped = Counter()  # reason -> cases

    def read_events(self, path):
        """One bazel command: its test programs and what could not be built."""
        results, built, aborted = {}, set(), {}
        unread, exit_code = set(), None
        for line in path.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            ident = event["id"]
            if "targetCompleted" in ident and "aspect" not in ident:
                label = ident["targetCompleted"]["label"]
                if "aborted" in event:
                    aborted[label] = event["aborted"].get("reason", "")
                elif event.get("completed", {}).get("success"):
                    built.add(label)
                else:
                    aborted[label] = "FAILED"
            elif "testResult" in ident:
                results[ident["testResult"]["label"]] = event["testResult"]
            elif "progress" in ident:
                unread |= set(BAD_PACKAGE.findall(
                    event.get("progress", {}).get("stderr", "")))
            elif "buildFinished" in ident:
                exit_code = event["finished"].get("exitCode", {}).get("code", 0)

        broken = {f"{label}: cannot be built"
                  for label, reason in aborted.items()
                  if reason != "SKIPPED" and label not in built}
        broken |= {f"//{name}: its BUILD file cannot be read"
                   for name in unread}
        # Several commands meet the same broken target.
        for failure in sorted(broken - set(self.failures)):
            self.failures.append(failure)
        before = len(self.failures)
        for label, result in sorted(results.items()):
            self.read_test(label, result)
        nothing_to_run = 4
        if exit_code not in (0, nothing_to_run) and not broken and (
                len(self.failures) == before):
            self.failures.append(f"{path.stem}: bazel ended with {exit_code}")

    def read_test(self, label, result):
        status = result.get("status", "NO_STATUS")
        xml = next((o["uri"] for o in result.get("testActionOutput", [])
                    if o["name"] == "test.xml"), None)
        before = len(self.failures)
        if xml is not None:
            try:
                self.read_cases(label, unquote(urlparse(xml).path), status)
            except (OSError, ElementTree.ParseError) as e:
                print(f"{label}: its report cannot be read: {e}")
        # A time-out, a crash, a leak that a sanitizer reports at exit.
        if status != "PASSED" and len(self.failures) == before:
            self.failures.append(f"{label}: {status}")

    def read_cases(self, label, path, status):
        for case in ElementTree.parse(path).iter("testcase"):
            name = f"{label}: {case.get('name')}"
            skipped = case.find("skipped")
            if case.find("failure") is not None or (
                    case.find("error") is not None):
                # Bazel's own report for a program that left none.
                self.failures.append(
                    name if status == "FAILED" else f"{name}: {status}")
            elif skipped is not None:
                self.skipped[skipped.get("message") or "no reason given"] += 1
            else:
                self.passed += 1

    def read_text(self, path):
        """The output of another script of ours."""
        if not path.exists():
            return
        content = path.read_text(encoding="utf-8", errors="replace")
        last = LAST_LINE.findall(content)
        if not last:
            self.failures.append(f"{path.name}: ended without a result")
            return
        self.passed += int(last[-1][0])
        named = re.findall(r"^FAILED: (.*)$", content, re.MULTILINE)
        failed = int(last[-1][1])
        self.failures += (named + [f"{path.name}: a test"] * failed)[:failed]
        for reason in re.findall(r"^SKIPPED: (.*)$", content, re.MULTILINE):
            self.skipped[reason] += 1


def main(folder):
    report = Report()
    for name in ("lint", "fuzz"):
        report.read_text(folder / name)
    for path in sorted(folder.glob("*.bep")):
        report.read_events(path)
    own = folder / "own"
    if own.exists():
        report.failures += re.findall(r"^FAILED: (.*)$", own.read_text(),
                                      re.MULTILINE)

    absent = folder / "absent"
    if absent.exists():
        print("not run:")
        print("    " + absent.read_text().strip().replace("\n", "\n    "))
    if report.skipped:
        print("skipped test cases, by their reason:")
        for reason, count in report.skipped.most_common():
            print(f"    {count}  {reason}")
    if report.failures:
        print("failed:")
        for failure in report.failures:
            print(f"    {failure}")
    print(f"{report.passed} passed, {len(report.failures)} failed")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
