"""What a clumsy or hostile user, operator or peer does: closed descriptors,
endless files, other people's checkpoints, cancels at every moment.
"""
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import harness
from harness import BIN, JOBS, TESTDATA, pipectl

DIGITS = JOBS / "digits.yaml"


def shell(line, timeout=60):
    """Runs a line of bash in which $B is the folder of the programs."""
    return subprocess.run(["bash", "-c", line], env={**os.environ,
                                                     "B": str(BIN)},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=timeout)


class CommandLine(harness.Case):

    def test_closed_descriptors_go_to_no_file(self):
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed=closed):
                state = self.folder / f"s{len(closed)}{closed[0] == '<'}"
                done = shell(f"$B/pipectl local run {DIGITS} --state-dir "
                             f"{state} --set 'run={{epochs: 1}}' {closed}")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_output_that_is_lost_is_no_success(self):
        for words in ("schedule", "schedule -o json", "explain"):
            done = shell(f"$B/pipectl {words} >/dev/full")
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("No space left", done.stderr)

    def test_a_bad_timeout_is_refused_by_every_command(self):
        for value in ("abc", "-1s", "NaN", "inf", ""):
            for words in (["jobs"], ["schedule"], ["validate", DIGITS]):
                done = pipectl(*words, f"--timeout={value}")
                self.assertEqual(done.returncode, 2, (words, value))

    def test_endless_input_ends(self):
        limit = "ulimit -v 2000000; "
        for words in ("validate /dev/zero", "validate - </dev/zero",
                      f"plan {DIGITS} --topology /dev/zero",
                      f"plan {DIGITS} --devices 2x2 --profile /dev/zero",
                      "jobs --server 127.0.0.1:1 --token-file /dev/zero"):
            with self.subTest(words=words):
                done = shell(f"{limit} $B/pipectl {words}", timeout=30)
                self.assertIn(done.returncode, (2, 3), done.stderr[:500])

    def test_a_token_that_no_header_can_hold_is_refused(self):
        token = self.folder / "token"
        for text in (b"", b"\n", b"abc\0def-0123456789abcdef\n", b"\x1b[31m\n",
                     b"\xff" * 40, b"x" * 100000):
            token.write_bytes(text)
            token.chmod(0o600)
            done = pipectl("jobs", "--server", "127.0.0.1:1", "--token-file",
                           token)
            self.assertEqual(done.returncode, 2, done.stderr[:500])
            done = shell(f"$B/piped --token-file {token} --state-dir "
                         f"{self.folder}/node", timeout=10)
            self.assertEqual(done.returncode, 2, done.stderr[:500])

    def test_terminal_escapes_are_shown_as_text(self):
        spec = self.folder / "a\x1b[31mb.yaml"
        spec.write_text("name: [")
        for done in (pipectl("validate", spec),
                     pipectl("show", "j-\x1b[2J", "--state-dir", self.folder),
                     pipectl("validate", DIGITS, "--set", "na\x9bme=3")):
            self.assertNotIn("\x1b", done.stdout + done.stderr)
            self.assertNotIn("\x9b", done.stdout + done.stderr)


class State(harness.Case):

    def test_references_of_checkpoints_mean_what_they_say(self):
        code, job = self.local_run(DIGITS, "--set", "run={epochs: 1}")
        self.assertEqual(code, 0, job)
        verify = ["checkpoint", "verify"]
        for ref in (job["id"], "name/digits", f"{job['id']}/45"):
            self.assertEqual(self.here(*verify, ref).returncode, 0, ref)
        for ref in (f"{job['id']}/44", f"{job['id']}/-1", "name/-1"):
            self.assertEqual(self.here(*verify, ref).returncode, 4, ref)
        # Not in the place of a device, a folder or a link to one.
        for file in ("/dev/null", self.folder):
            for force in ([], ["--force"]):
                done = self.here("checkpoint", "export", job["id"], "--out",
                                 file, *force)
                self.assertEqual(done.returncode, 5, done.stderr)
        self.assertFalse(os.path.isfile("/dev/null"))

    def test_a_state_of_another_kind_is_refused_and_left_alone(self):
        self.local_run(DIGITS, "--set", "run={epochs: 1}")
        database = self.state / "state.db"
        good = database.read_bytes()

        def other_version():
            link = sqlite3.connect(database)
            link.execute("PRAGMA user_version = 99")
            link.commit()
            link.close()

        for name, spoil in (
                ("rubbish", lambda: database.write_bytes(b"#" * 9000)),
                ("nothing", lambda: database.write_bytes(b"")),
                ("version", other_version)):
            with self.subTest(name):
                database.write_bytes(good)
                spoil()
                before = database.read_bytes()
                done = pipectl("local", "run", DIGITS, "--state-dir",
                               self.state)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("state.db", done.stderr)
                self.assertEqual(database.read_bytes(), before)


class Daemons(harness.Case):

    def test_piped_refuses_a_name_that_no_coordinator_takes(self):
        for name in ("a/b", "..", "a\x1b[31m"):
            done = subprocess.run(
                [BIN / "piped", "--name", name, "--state-dir", self.folder],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                timeout=10)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--name", done.stderr)
            self.assertNotIn("\x1b", done.stderr)

    def test_an_address_that_cannot_be_served_is_a_wrong_flag(self):
        for address in ("", "foo", "127.0.0.1:1000000", "0.0.0.0:0"):
            done = pipectl("local", "up", "--state-dir", self.state,
                           "--listen", address)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--listen", done.stderr)

    def test_data_that_is_overwritten_while_it_is_read_ends_the_job(self):
        self.up()
        data = self.folder / "data"
        shutil.copytree(TESTDATA / "digits", data)
        job = self.submit(DIGITS, "--set", f"data.dir={data}", "--set",
                          "run={epochs: 2000}")
        self.wait_step(job, 100)
        x = data / "train_x.npy"
        size = x.stat().st_size
        with open(x, "r+b") as file:
            file.seek(size // 2)
            file.write(b"\x07" * (size - size // 2))
        ended = self.wait_state(job, "FAILED", seconds=20)
        self.assertEqual(ended["reason"], "DATA_ERROR")
        self.assertIn("train_x.npy at byte", ended["message"])

    def test_a_coordinator_that_was_stopped_blames_no_node(self):
        self.up()
        job = self.submit(DIGITS, "--set", "run={epochs: 4000}")
        self.wait_step(job, 100)
        coordinator = harness.processes_of(self.folder, "pipecoord")[0]
        os.kill(coordinator, signal.SIGSTOP)
        time.sleep(18)  # longer than a node may be silent
        os.kill(coordinator, signal.SIGCONT)
        time.sleep(8)
        after = self.job(job)
        self.assertEqual((after["state"], after["attempt"]), ("RUNNING", 1))
        self.here("cancel", "--now", job)
        self.wait_state(job, "CANCELLED")

    def test_a_wrong_token_is_called_one(self):
        right, wrong = self.folder / "right", self.folder / "wrong"
        for file, text in ((right, "a" * 32), (wrong, "b" * 32)):
            file.write_text(text + "\n")
            file.chmod(0o600)
        coordinator = subprocess.Popen(
            [BIN / "pipecoord", "--listen", "127.0.0.1:0", "--token-file",
             right, "--state-dir", self.state], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        try:
            address = coordinator.stdout.readline().split()[-1]
            for flags in ([], ["--token-file", wrong]):
                done = pipectl("jobs", "--server", address, *flags)
                self.assertEqual(done.returncode, 6, done.stderr)
            done = shell(f"timeout 3 $B/piped --coordinator {address} "
                         f"--token-file {wrong} --state-dir {self.folder}/n")
            self.assertIn("token", done.stderr)
            self.assertNotIn("CANCELLED", done.stderr)
        finally:
            coordinator.terminate()
            coordinator.communicate(timeout=20)

    def test_many_jobs_come_and_are_cancelled_and_the_next_one_runs(self):
        self.up()

        def submit(i):
            return self.here("submit", DIGITS, "--name", f"q{i}", "--set",
                             "run={epochs: 400}")

        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(submit, range(24)))
        self.assertEqual({each.returncode for each in done}, {0})
        ids = [each.stdout.strip() for each in done]
        # One at a time, so that each one's turn comes and goes.
        for job in ids:
            self.assertEqual(self.here("cancel", "--now", job).returncode, 0)
            time.sleep(0.03)
        for job in ids:
            self.wait_state(job, "CANCELLED", seconds=20)
        begin = time.monotonic()
        last = self.here("submit", DIGITS, "--wait", "--set",
                         "run={epochs: 1}", timeout=60)
        self.assertEqual(last.returncode, 0, last.stderr)
        self.assertLess(time.monotonic() - begin, 30)


if __name__ == "__main__":
    harness.main()
