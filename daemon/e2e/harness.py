"""What tests of whole jobs share: programs, clusters, waiting, clean-up.

A test file ends with `harness.main()`. Its cases are counted through the XML
file that Bazel asks for; a skipped case prints its reason.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(os.environ.get("TEST_SRCDIR", ".")) / os.environ.get(
    "TEST_WORKSPACE", ".")
BIN = Path(os.environ.get("PIPEWORK_BIN", ROOT / "cli")).resolve()
TESTDATA = (ROOT / "testdata").resolve()
JOBS = TESTDATA / "jobs"


def pipectl(*arguments, timeout=120, env=None, cwd=None, stdin=None):
    """Runs pipectl; returns the finished process with text output."""
    return subprocess.run(
        [str(BIN / "pipectl"), *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        timeout=timeout, env={**os.environ, **(env or {})}, cwd=cwd,
        input=stdin)


def pipectl_json(*arguments, **kwargs):
    """Runs pipectl -o json; returns (exit code, the one object)."""
    done = pipectl(*arguments, "-o", "json", **kwargs)
    try:
        return done.returncode, json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise AssertionError(
            f"{arguments}: no JSON on stdout ({error}): {done.stdout!r}\n"
            f"stderr: {done.stderr}") from None


def start(*arguments, env=None, **kwargs):
    """Starts pipectl in the background, its output in pipes."""
    return subprocess.Popen(
        [str(BIN / "pipectl"), *map(str, arguments)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})},
        **kwargs)


def wait_until(what, condition, seconds=30, every=0.02):
    """Returns the first true value of condition(); fails naming `what`."""
    limit = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > limit:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(every)


def processes_of(folder, name=None):
    """Pids of our programs whose command line names `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        program = os.path.basename(words[0].decode(errors="replace"))
        if program not in ("pipectl", "pipecoord", "piped", "pipe-runner"):
            continue
        if name is not None and program != name:
            continue
        if any(str(folder).encode() in word for word in words[1:]):
            found.append(int(entry.name))
    return sorted(found)


def children_of(pid):
    """Pids of the children of `pid`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        if int(stat.rsplit(")", 1)[1].split()[1]) == pid:
            found.append(int(entry.name))
    return sorted(found)


def runners_of(folder):
    """Pids of the runners of the daemons that use `folder`."""
    return sorted(child for daemon in processes_of(folder, "piped")
                  for child in children_of(daemon))


class Case(unittest.TestCase):
    """A test with a state folder of its own, in which nothing is left alive."""

    def setUp(self):
        # Short: paths of sockets end at 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="pw-e2e-"))
        self.state = self.folder / "state"
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(self.end_all)

    def end_all(self):
        for pid in processes_of(self.folder) + runners_of(self.folder):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def assert_nothing_left(self, seconds=15):
        """No process of ours names the folder any more."""
        wait_until("every process is gone",
                   lambda: not processes_of(self.folder), seconds)

    def local_run(self, spec, *arguments, timeout=180):
        """`local run` in the state folder: (exit code, Job or Error)."""
        return pipectl_json("local", "run", spec, "--state-dir", self.state,
                            *arguments, timeout=timeout)

    def up(self, *arguments):
        """`local up` on a free port; torn down at the end."""
        done = pipectl("local", "up", "--state-dir", self.state, "--listen",
                       "127.0.0.1:0", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.down)

    def down(self):
        pipectl("local", "down", "--state-dir", self.state)

    def here(self, *arguments, **kwargs):
        """pipectl with this test's state folder."""
        return pipectl(*arguments, "--state-dir", self.state, **kwargs)

    def here_json(self, *arguments, **kwargs):
        return pipectl_json(*arguments, "--state-dir", self.state, **kwargs)

    def submit(self, spec, *arguments):
        done = self.here("submit", spec, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip().splitlines()[-1]

    def job(self, ref):
        return self.here_json("show", ref)[1]

    def wait_state(self, ref, *states, seconds=30):
        """The job once it is in one of the states."""
        def look():
            job = self.job(ref)
            return job if job.get("state") in states else None
        return wait_until(f"{ref} is {' or '.join(states)}", look, seconds)

    def wait_step(self, ref, step, seconds=30):
        def look():
            job = self.job(ref)
            self.assertNotIn(job.get("state"), ("FAILED", "CANCELLED"), job)
            return job if job.get("step", 0) >= step else None
        return wait_until(f"{ref} is at step {step}", look, seconds)


class _Result(unittest.TextTestResult):
    """Prints reasons of skips and keeps what the XML file needs."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cases = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.cases.append((test, None, None))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.cases.append((test, "failure", self.failures[-1][1]))

    def addError(self, test, err):
        super().addError(test, err)
        self.cases.append((test, "error", self.errors[-1][1]))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"SKIPPED: {test.id()}: {reason}", flush=True)
        self.cases.append((test, "skipped", reason))


def _write_xml(path, cases):
    suite = ElementTree.Element("testsuite", {"name": "e2e",
                                              "tests": str(len(cases))})
    for test, kind, text in cases:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": type(test).__name__,
                                "name": test.id().rsplit(".", 1)[-1]})
        if kind is not None:
            node = ElementTree.SubElement(case, kind)
            clean = re.sub(r"[^\t\n\x20-\x7e]", "?", text or "")
            node.set("message", clean.splitlines()[-1] if clean else "")
            node.text = clean
    ElementTree.ElementTree(suite).write(path)


def main():
    """Runs the cases of the calling file; words of the command line pick."""
    loader = unittest.TestLoader()
    module = sys.modules["__main__"]
    names = sys.argv[1:]
    suite = (loader.loadTestsFromNames(names, module) if names
             else loader.loadTestsFromModule(module))
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2,
                                     resultclass=_Result)
    result = runner.run(suite)
    if "XML_OUTPUT_FILE" in os.environ:
        _write_xml(os.environ["XML_OUTPUT_FILE"], result.cases)
    sys.exit(0 if result.wasSuccessful() and result.cases else 1)
