"""Two machines: coordinator and nodes in network namespaces of their own."""
import json
import os
import subprocess
import time
import unittest

import harness
from harness import BIN, JOBS, wait_until


def run(*words):
    return subprocess.run(words, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


def why_not():
    """Reason why there can be no namespaces here, None where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"pwt{os.getpid()}"
    try:
        made = run("ip", "netns", "add", name)
    except FileNotFoundError:
        return "there is no `ip` command (package iproute2)"
    if made.returncode != 0:
        return f"ip netns add: {made.stdout.strip()}"
    run("ip", "netns", "del", name)
    return None


class TwoMachines(harness.Case):

    def setUp(self):
        super().setUp()
        reason = why_not()
        if reason is not None:
            self.skipTest(reason)
        self.a, self.b = f"pwa{os.getpid()}", f"pwb{os.getpid()}"
        self.addCleanup(self.remove)
        link = f"pw{os.getpid() % 100000}"
        for words in (
                f"ip netns add {self.a}", f"ip netns add {self.b}",
                f"ip link add {link}a type veth peer name {link}b",
                f"ip link set {link}a netns {self.a}",
                f"ip link set {link}b netns {self.b}",
                f"ip -n {self.a} addr add 10.77.0.1/24 dev {link}a",
                f"ip -n {self.b} addr add 10.77.0.2/24 dev {link}b",
                f"ip -n {self.a} link set {link}a up",
                f"ip -n {self.b} link set {link}b up",
                f"ip -n {self.a} link set lo up",
                f"ip -n {self.b} link set lo up"):
            done = run(*words.split())
            self.assertEqual(done.returncode, 0, (words, done.stdout))
        self.link = link
        self.token = self.folder / "token"
        self.token.write_text("s3cret-token-of-this-test\n")
        self.token.chmod(0o600)
        self.processes = []

    def remove(self):
        for process in getattr(self, "processes", []):
            process.kill()
            process.wait()
        for name in (self.a, self.b):
            run("ip", "netns", "del", name)

    def inside(self, namespace, program, *arguments):
        log = open(self.folder / f"{program}-{len(self.processes)}.log", "w")
        process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, str(BIN / program),
             *map(str, arguments)], stdout=log, stderr=log,
            stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def pipectl(self, *arguments, timeout=120):
        return subprocess.run(
            ["ip", "netns", "exec", self.a, str(BIN / "pipectl"),
             *map(str, arguments), "--server", "10.77.0.1:7070",
             "--token-file", str(self.token)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=timeout)

    def cluster(self):
        self.inside(self.a, "pipecoord", "--listen", "10.77.0.1:7070",
                    "--state-dir", self.state, "--token-file", self.token)
        for name, namespace, host in (("n1", self.a, "10.77.0.1"),
                                      ("n2", self.b, "10.77.0.2")):
            self.inside(namespace, "piped", "--coordinator", "10.77.0.1:7070",
                        "--name", name, "--advertise", host, "--data-ports",
                        "41000-41015", "--devices", 2, "--state-dir",
                        self.folder / name, "--token-file", self.token)

        def ready():
            done = self.pipectl("node", "ls", "-o", "json")
            if done.returncode != 0:
                return False
            states = [n["state"] for n in json.loads(done.stdout)["nodes"]]
            return states == ["READY", "READY"]
        wait_until("both nodes are ready", ready, 20, 0.2)

    def test_the_main_job_runs_over_two_machines(self):
        self.cluster()
        done = self.pipectl("submit", JOBS / "digits.yaml", "--wait", "-o",
                            "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        job = json.loads(done.stdout)
        self.assertGreaterEqual(job["test_accuracy"], 0.975)
        self.assertEqual({s["device"].split("/")[0] for s in job["stages"]},
                         {"n1", "n2"})
        # Ports of the data plane stay within the range.
        for seat in job["placement"]["seats"]:
            host, port = seat["data_address"].rsplit(":", 1)
            self.assertIn(host, ("10.77.0.1", "10.77.0.2"))
            self.assertTrue(41000 <= int(port) <= 41015, seat)

    def test_a_link_that_goes_down_ends_the_attempt_and_is_named(self):
        self.cluster()
        done = self.pipectl("submit", JOBS / "digits.yaml", "--set",
                            "run.epochs=4000", "--set",
                            "run.target_accuracy=0")
        job = done.stdout.split()[0]

        def running():
            shown = self.pipectl("show", job, "-o", "json")
            return json.loads(shown.stdout)["step"] > 20
        wait_until("it runs", running, 30, 0.2)
        run("ip", "-n", self.b, "link", "set", f"{self.link}b", "down")
        at = time.monotonic()

        def failed():
            shown = json.loads(
                self.pipectl("show", job, "-o", "json").stdout)
            return shown if shown["state"] == "FAILED" else None
        shown = wait_until("it has failed", failed, 40, 0.2)
        self.assertLess(time.monotonic() - at, 40)
        # The cause names the end that is gone: its address and its stages.
        self.assertRegex(shown["message"], r"10\.77\.0\.[12].*s[0-3]\.r0")

    def test_without_the_token_nobody_gets_in(self):
        self.cluster()
        wrong = self.folder / "wrong"
        wrong.write_text("not-it\n")
        for token in ([], ["--token-file", str(wrong)]):
            done = subprocess.run(
                ["ip", "netns", "exec", self.b, str(BIN / "pipectl"), "jobs",
                 "--server", "10.77.0.1:7070", *token],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 6, done.stderr)

    def test_an_open_address_without_a_token_is_refused(self):
        process = self.inside(self.a, "pipecoord", "--listen", "0.0.0.0:7070",
                              "--state-dir", self.folder / "other")
        self.assertEqual(process.wait(timeout=10), 2)
        log = (self.folder / "pipecoord-0.log").read_text()
        self.assertIn("--token-file", log)


if __name__ == "__main__":
    harness.main()
