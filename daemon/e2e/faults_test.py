"""Faults: killed processes, cancelled jobs, interrupted commands."""
import os
import shlex
import signal
import subprocess
import time

import harness
from harness import BIN, JOBS, processes_of, runners_of, start, wait_until

LONG = ("--set", "run.epochs=400", "--set", "run.target_accuracy=0")
# Long enough to be killed in the middle, short enough to be waited for.
SOME = ("--set", "run.epochs=12", "--set", "run.target_accuracy=0")


class Killed(harness.Case):

    def setUp(self):
        super().setUp()
        self.up()

    def node_pid(self, node):
        return [p for p in processes_of(self.state, "piped")
                if f"nodes/{node}\0".encode() in
                open(f"/proc/{p}/cmdline", "rb").read()][0]

    def next_job_runs(self):
        job = self.submit(JOBS / "digits.yaml", "--set", "run.epochs=1",
                          "--set", "run.target_accuracy=0", "--set",
                          "pipeline.stages=2")
        done = self.here("wait", job, timeout=60)
        self.assertEqual(done.returncode, 0, (done.stdout, self.job(job)))

    def test_a_killed_runner_fails_the_job_and_is_named(self):
        job = self.submit(JOBS / "digits.yaml", *LONG)
        self.wait_step(job, 20)
        os.kill(runners_of(self.state)[0], signal.SIGKILL)
        at = time.monotonic()
        ended = self.wait_state(job, "FAILED", seconds=15)
        self.assertLess(time.monotonic() - at, 15)
        self.assertIn("signal 9", ended["message"])
        wait_until("no runner is left", lambda: not runners_of(self.state), 5)
        self.next_job_runs()

    def test_with_restarts_it_goes_on_from_the_newest_checkpoint(self):
        job = self.submit(JOBS / "digits.yaml", *SOME, "--set",
                          "restart.max=1")
        wait_until("a checkpoint", lambda: self.job(job)["checkpoint"], 30)
        self.wait_step(job, 60)
        os.kill(runners_of(self.state)[1], signal.SIGKILL)
        done = self.here("wait", job, timeout=90)
        self.assertEqual(done.returncode, 0, self.job(job))
        ended = self.job(job)
        self.assertEqual((ended["state"], ended["attempt"]), ("SUCCEEDED", 2))
        self.assertGreater(ended["attempts"][1]["from_step"], 0)
        self.assertIn("signal 9", ended["attempts"][0]["cause"])
        epochs = [e["epoch"] for e in ended["epochs"]]
        self.assertEqual(epochs, list(range(1, 13)))

    def test_a_killed_daemon_takes_its_runner_along(self):
        job = self.submit(JOBS / "digits.yaml", *LONG)
        self.wait_step(job, 20)
        victim = self.node_pid("n2")
        runner = harness.children_of(victim)[0]
        os.kill(victim, signal.SIGKILL)
        ended = self.wait_state(job, "FAILED", seconds=15)
        self.assertIn("n2", ended["message"])
        wait_until("its runner is gone",
                   lambda: not os.path.exists(f"/proc/{runner}"), 5)
        wait_until("the other runner is gone",
                   lambda: not runners_of(self.state), 15)
        self.next_job_runs()

    def test_a_killed_daemon_and_restarts_use_the_devices_that_are_left(self):
        job = self.submit(JOBS / "digits.yaml", *SOME, "--set",
                          "restart.max=1", "--set", "pipeline.stages=2")
        wait_until("a checkpoint", lambda: self.job(job)["checkpoint"], 30)
        seats = self.job(job)["placement"]["seats"]
        os.kill(self.node_pid(seats[-1]["node"]), signal.SIGKILL)
        done = self.here("wait", job, timeout=90)
        self.assertEqual(done.returncode, 0, self.job(job))
        ended = self.job(job)
        self.assertEqual(ended["attempt"], 2)
        dead = seats[-1]["node"]
        self.assertNotIn(dead, [s["node"] for s in
                                ended["placement"]["seats"]])

    def test_a_killed_coordinator_loses_no_step(self):
        job = self.submit(JOBS / "digits.yaml", "--set", "run.epochs=40",
                          "--set", "run.target_accuracy=0")
        self.wait_step(job, 60)
        runners = runners_of(self.state)
        os.kill(processes_of(self.state, "pipecoord")[0], signal.SIGKILL)

        def back():
            done = self.here("show", job, "-o", "json", "--timeout", "2s")
            return done.returncode == 0
        wait_until("the coordinator is back", back, 15)
        self.assertEqual(runners_of(self.state), runners)
        done = self.here("wait", job, timeout=120)
        self.assertEqual(done.returncode, 0, self.job(job))
        ended = self.job(job)
        self.assertEqual((ended["state"], ended["attempt"]), ("SUCCEEDED", 1))
        self.assertEqual([e["epoch"] for e in ended["epochs"]],
                         list(range(1, 41)))
        steps = [line for line in open(
            self.state / "jobs" / job / "steps.jsonl")]
        self.assertEqual(len(steps), ended["step"])

    def test_cancel_in_every_state(self):
        # RUNNING, with a checkpoint.
        job = self.submit(JOBS / "digits.yaml", *LONG)
        self.wait_step(job, 30)
        second = self.submit(JOBS / "digits.yaml", *LONG)  # QUEUED
        self.assertEqual(self.here("cancel", second).returncode, 0)
        self.wait_state(second, "CANCELLED", seconds=5)
        self.assertEqual(self.here("cancel", job).returncode, 0)
        ended = self.wait_state(job, "CANCELLED", seconds=20)
        self.assertTrue(ended["checkpoint"])
        done = self.here("checkpoint", "verify", ended["checkpoint"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.here("cancel", job).returncode, 0)
        # Soon after the submit: PROFILING, RESERVING, STARTING.
        for delay in (0, 0.1, 0.3, 0.6, 1.0):
            job = self.submit(JOBS / "digits.yaml", *LONG, "--set",
                              f"batch.minibatch={int(20 + 10 * delay)}")
            time.sleep(delay)
            self.assertEqual(self.here("cancel", job, "--now").returncode, 0)
            self.wait_state(job, "CANCELLED", seconds=20)
        wait_until("no runner is left", lambda: not runners_of(self.state), 10)
        self.next_job_runs()

    def test_ctrl_c_detaches_from_a_followed_job(self):
        follower = start("submit", JOBS / "digits.yaml", *LONG, "--follow",
                         "--state-dir", self.state)
        job = wait_until("a job", lambda: self.here_json("jobs")[1]["jobs"])[0]
        self.wait_step(job["id"], 10)
        follower.send_signal(signal.SIGINT)
        out, err = follower.communicate(timeout=20)
        self.assertEqual(follower.returncode, 130)
        self.assertIn(job["id"], err)
        self.assertEqual(self.job(job["id"])["state"], "RUNNING")
        watcher = start("status", job["id"], "--watch", "--state-dir",
                        self.state)
        time.sleep(1)
        watcher.kill()
        watcher.communicate()
        self.assertEqual(self.job(job["id"])["state"], "RUNNING")

    def test_a_follower_that_hangs_up_leaves_the_job_or_cancels_it(self):
        for arguments, number, after in (
                ((), signal.SIGHUP, ("RUNNING",)),
                (("--cancel-on-exit",), signal.SIGINT,
                 ("CANCELLING", "CANCELLED"))):
            with self.subTest(arguments=arguments):
                follower = start("submit", JOBS / "digits.yaml", *LONG,
                                 "--follow", *arguments, "--state-dir",
                                 self.state)
                job = wait_until("a job", lambda: [
                    j for j in self.here_json("jobs")[1]["jobs"]
                    if j["state"] == "RUNNING"])[0]["id"]
                self.wait_step(job, 10)
                follower.send_signal(number)
                _, err = follower.communicate(timeout=20)
                self.assertEqual(follower.returncode, 130, err)
                self.assertIn(job, err)
                self.assertIn(self.job(job)["state"], after)
                self.here("cancel", job, "--now")
                self.wait_state(job, "CANCELLED")

    def test_killed_while_it_saves(self):
        job = self.submit(JOBS / "digits.yaml", *SOME, "--set",
                          "restart.max=3", "--set",
                          "checkpoint={every_steps: 5}")
        for _ in range(3):
            wait_until("two runners", lambda: len(runners_of(self.state)) == 2)
            step = self.job(job)["step"]
            self.wait_step(job, step + 12)
            for pid in runners_of(self.state)[:1]:
                os.kill(pid, signal.SIGKILL)
            wait_until("the next attempt", lambda: self.job(job)["state"] in
                       ("RECOVERING", "RESERVING", "STARTING", "RUNNING"))
            time.sleep(0.5)
        done = self.here("wait", job, timeout=120)
        ended = self.job(job)
        self.assertEqual(done.returncode, 0, ended)
        for entry in self.here_json("checkpoint", "ls", job)[1]["checkpoints"]:
            self.assertTrue(entry["complete"], entry)


class FullDisk(harness.Case):
    """A state folder of a few megabytes; who is not root makes it his own."""

    def run_on(self, kilobytes, *arguments):
        disk = self.folder / "disk"
        disk.mkdir()
        unshare = ["unshare", "--mount"]
        if os.geteuid() != 0:
            unshare.insert(1, "--map-root-user")
        mount = f"mount -t tmpfs -o size={kilobytes}k tmpfs {disk}"
        tried = subprocess.run([*unshare, "sh", "-c", mount],
                               capture_output=True, text=True)
        if tried.returncode != 0:
            self.skipTest("no small file system can be mounted: " +
                          tried.stderr.strip())
        # What is left there is looked at before it is gone.
        words = " ".join(shlex.quote(str(word)) for word in (
            BIN / "pipectl", "local", "run", JOBS / "digits.yaml",
            "--state-dir", disk / "state", "--set",
            "checkpoint.every_epochs=1", "--set", "run.epochs=4", "--set",
            "run.target_accuracy=0", *arguments))
        done = subprocess.run(
            [*unshare, "sh", "-c", f"{mount} && {words} 2>&1; echo exit $?; "
             f"ls -A {disk}/state/jobs/*/checkpoints"],
            capture_output=True, text=True, timeout=120)
        return done.stdout

    def test_a_full_disk_costs_checkpoints_but_no_step(self):
        said = self.run_on(2600, "--set", "model.args.width=64")
        self.assertIn("checkpoint of step 45 is not stored, and there is no "
                      "earlier one", said)
        self.assertIn("epoch   4", said)
        self.assertIn("No space left on device", said)
        self.assertIn("exit 10", said)
        self.assertNotIn("partial", said.split("exit 10")[1])

    def test_the_last_good_checkpoint_stays(self):
        # Room for one, not for two.
        said = self.run_on(12400, "--set", "model.args.width=64")
        self.assertIn("the last good one is of step 45", said)
        self.assertIn("step-00000045", said.split("exit")[1])
        self.assertNotIn("partial", said.split("exit")[1])


class Interrupted(harness.Case):

    def test_ctrl_c_in_local_run_cancels_with_a_checkpoint(self):
        run = start("local", "run", JOBS / "digits.yaml", "--state-dir",
                    self.state, *LONG)
        wait_until("steps", lambda: list(self.state.glob(
            "jobs/*/steps.jsonl")) and list(self.state.glob(
                "jobs/*/steps.jsonl"))[0].stat().st_size > 0)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=40)
        self.assertEqual(run.returncode, 130, err)
        self.assertIn("CANCELLED", out)
        self.assert_nothing_left()
        self.assertTrue(list(self.state.glob("jobs/*/checkpoints/step-*")))

    def test_a_killed_local_run_leaves_nothing_behind(self):
        run = start("local", "run", JOBS / "digits.yaml", "--state-dir",
                    self.state, *LONG)
        wait_until("runners", lambda: runners_of(self.state), 20)
        runners = runners_of(self.state)
        run.kill()
        run.communicate()
        self.assert_nothing_left(15)
        wait_until("the runners are gone", lambda: not any(
            os.path.exists(f"/proc/{p}") for p in runners), 5)

    def test_local_run_restarts_its_coordinator(self):
        run = start("local", "run", JOBS / "digits.yaml", "--state-dir",
                    self.state, "--set", "run.epochs=30", "--set",
                    "run.target_accuracy=0")
        wait_until("steps", lambda: list(self.state.glob(
            "jobs/*/steps.jsonl")) and list(self.state.glob(
                "jobs/*/steps.jsonl"))[0].stat().st_size > 0)
        os.kill(processes_of(self.state, "pipecoord")[0], signal.SIGKILL)
        out, err = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 0, (out, err))
        self.assertIn("SUCCEEDED", out)
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
