"""pipectl as scripts and people meet it: exit codes, JSON, bad input."""
import json
import socket
import subprocess
import threading
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import harness
from harness import BIN, JOBS, TESTDATA, pipectl, pipectl_json

DEAD = ("--server", "127.0.0.1:1")


class WithoutServer(harness.Case):

    def check_error(self, code, reason, *arguments, **kwargs):
        """Both forms: exit code; one Error object; words on stderr only."""
        plain = pipectl(*arguments, **kwargs)
        self.assertEqual(plain.returncode, code, (arguments, plain.stderr))
        self.assertTrue(plain.stderr.startswith("error: "), plain.stderr)
        got, error = pipectl_json(*arguments, **kwargs)
        self.assertEqual(got, code)
        self.assertEqual((error["kind"], error["code"]), ("Error", code))
        self.assertEqual(set(error) >= {"reason", "message", "problems"}, True)
        if reason is not None:
            self.assertEqual(error["reason"], reason)
        return error

    def test_usage(self):
        self.check_error(2, "USAGE", "frobnicate")
        self.check_error(2, "USAGE", "jobs", "--no-such-flag")
        self.check_error(2, "USAGE", "submit")
        self.check_error(2, "USAGE", "local", "run", JOBS / "digits.yaml",
                         "--nodes", "0")
        self.check_error(2, "USAGE", "local", "run", JOBS / "digits.yaml",
                         "--metrics", "x.txt")
        self.check_error(2, "USAGE", "jobs", "--state", "NAPPING", *DEAD)
        self.check_error(2, "USAGE", "completion", "tcsh")
        self.check_error(2, "UNREADABLE_FILE", "validate", "no-such.yaml")
        error = self.check_error(2, "USAGE", "frobnicate", "x")
        self.assertIn("frobnicate", error["message"])

    def test_files_and_values_of_flags_are_usage(self):
        plan = ("plan", JOBS / "digits.yaml", "--devices")
        nowhere = self.folder / "nowhere" / "file"
        self.check_error(2, "USAGE", *plan, "2y2")
        self.check_error(2, "USAGE", *plan, "2", "--bandwidth", "fast")
        self.check_error(2, "USAGE", *plan, "2", "--cost-model", "magic")
        self.check_error(2, "USAGE", *plan, "2", "--profile", nowhere)
        self.check_error(2, "USAGE", *plan, "2", "--topology", nowhere)
        junk = self.folder / "junk.textproto"
        junk.write_text("no such field\n")
        self.check_error(3, None, *plan, "4", "--profile", junk)
        self.check_error(2, "USAGE", "jobs", "--token-file", nowhere, *DEAD)
        # Before anything is started or submitted.
        metrics = self.folder / "nowhere" / "steps.csv"
        self.check_error(2, "USAGE", "local", "run", JOBS / "digits.yaml",
                         "--metrics", metrics)
        self.check_error(2, "USAGE", "submit", JOBS / "digits.yaml",
                         "--metrics", metrics, *DEAD)

    def test_help_and_version_answer(self):
        for words in (["--help"], ["local", "--help"], ["submit", "--help"],
                      ["--version"], ["version", *DEAD]):
            done = pipectl(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("pipectl", done.stdout)

    def test_unreachable(self):
        for words in (["jobs"], ["show", "j-aaaaaa"], ["node", "ls"],
                      ["cancel", "j-aaaaaa"], ["health"],
                      ["submit", JOBS / "digits.yaml"]):
            with self.subTest(words=words):
                self.check_error(7, "UNREACHABLE", *words, *DEAD, "--timeout",
                                 "3s")

    def test_every_problem_of_a_spec_at_once_with_its_line(self):
        spec = self.folder / "bad.yaml"
        spec.write_text(
            "name: bad\n"
            "modle: {name: mlp}\n"
            "model: {name: no_such_net}\n"
            "data: {train: {x: a.npy, y: b.npy}}\n"
            "batch: {minibatch: 0}\n"
            "optimizer: {name: sgd, momentum: 2}\n"
            "learning_rate: {base: fast}\n"
            "run: {epochs: 1, steps: 2}\n"
            "checkpoint: {every_seconds: 0}\n")
        error = self.check_error(3, "INVALID_SPEC", "validate", spec)
        lines = {p["line"] for p in error["problems"]}
        for line in (2, 3, 5, 6, 7, 8, 9):
            self.assertIn(line, lines, error["problems"])
        fields = {p["field"] for p in error["problems"]}
        self.assertIn("modle", fields)
        self.assertIn("batch.minibatch", fields)
        modle = [p for p in error["problems"] if p["field"] == "modle"][0]
        self.assertIn("model", modle["hint"])
        self.assertTrue(all(p["file"].endswith("bad.yaml")
                            for p in error["problems"]))

    def test_bad_files_of_other_kinds(self):
        for text in ("", "[1, 2", "- a\n- b\n", "a: &x [*x]\n", "\xff\xfe",
                     "a: 1\n---\nb: 2\n", "{" * 5000):
            spec = self.folder / "odd.yaml"
            spec.write_bytes(text.encode("latin-1"))
            self.check_error(3, "INVALID_SPEC", "validate", spec)
        self.check_error(2, "UNREADABLE_FILE", "validate", self.folder)

    def test_validate_and_explain(self):
        for spec in sorted(JOBS.glob("*.yaml")):
            done = pipectl("validate", spec)
            self.assertEqual(done.returncode, 0, (spec, done.stderr))
        done = pipectl("explain", "pipeline.stages")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("auto", done.stdout)
        done = pipectl("explain", "--recursive")
        self.assertIn("learning_rate", done.stdout)
        self.check_error(4, None, "explain", "pipeline.stagse")

    def test_set_overrides_and_stdin(self):
        text = (JOBS / "digits.yaml").read_text()
        done = pipectl("validate", "-", "--set", "run.epochs=3", stdin=text,
                       cwd=JOBS)
        self.assertEqual(done.returncode, 0, done.stderr)
        code, spec = pipectl_json("validate", "-", "--set", "run.epochs=3",
                                  stdin=text, cwd=JOBS)
        self.assertEqual((code, spec["run"]["epochs"]), (0, 3))
        error = self.check_error(3, "INVALID_SPEC", "validate",
                                 JOBS / "digits.yaml", "--set", "run.epocs=3")
        self.assertEqual(error["problems"][0]["file"], "--set")

    def test_schedules_are_printed_without_a_server(self):
        done = pipectl("schedule", "--stages", "4", "--minibatches", "8")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        code, schedule = pipectl_json("schedule", "--stages", "4",
                                      "--minibatches", "8")
        self.assertEqual(code, 0)
        rows = {p["stage"]: p["actions"] for p in schedule["programs"]}
        compute = [a for a in rows[3] if a[0] in "FB"]
        self.assertEqual(compute[:6], ["F0", "B0", "F1", "B1", "F2", "B2"])
        compute = [a for a in rows[0] if a[0] in "FB"]
        self.assertEqual(
            " ".join(compute),
            "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7")
        self.assertEqual(schedule["versions"], [4, 3, 2, 1])
        self.assertEqual(schedule["staleness"], [3, 2, 1, 0])
        self.assertEqual(schedule["unit"], "minibatch")
        code, schedule = pipectl_json("schedule", "--schedule", "flush",
                                      "--stages", "4", "--microbatches", "8")
        self.assertEqual((code, schedule["unit"], schedule["makespan"]),
                         (0, "microbatch", 33))
        self.check_error(3, None, "schedule", "--schedule", "2f2b")
        self.check_error(3, None, "schedule", "--weights", "flush")

    def test_every_schedule_is_drawn_in_80_columns_as_json_and_as_svg(self):
        # What is in flight, versions and staleness, by stage.
        one_each, nothing = [1, 1, 1, 1], [0, 0, 0, 0]
        for arguments, makespan, in_flight, versions, staleness in (
                (("1f1b",), 33, [4, 3, 2, 1], [4, 3, 2, 1], [3, 2, 1, 0]),
                (("1f1b", "--weights", "vertical_sync"), 33, [4, 3, 2, 1],
                 [4, 4, 4, 4], [3, 3, 3, 3]),
                (("1f1b", "--weights", "none"), 33, [4, 3, 2, 1], one_each,
                 nothing),
                (("model_parallel",), 96, one_each, one_each, nothing),
                (("gpipe",), 33, [8, 8, 8, 8], one_each, nothing),
                (("flush",), 33, [4, 3, 2, 1], one_each, nothing),
                (("two_version",), 81, [4, 3, 2, 1], [2, 2, 2, 2],
                 [1, 1, 1, 1]),
                (("interleaved",), 28.5, [11, 9, 7, 5], one_each, nothing),
                (("zb_h1",), 27, [4, 3, 2, 1], one_each, nothing),
                (("zb_h2",), 27, [7, 5, 3, 1], one_each, nothing)):
            with self.subTest(arguments=arguments):
                svg = self.folder / "grid.svg"
                code, drawn = pipectl_json("schedule", "--schedule",
                                           *arguments, "--out", svg)
                self.assertEqual(
                    (code, drawn["makespan"], drawn["in_flight"],
                     drawn["versions"], drawn["staleness"]),
                    (0, makespan, in_flight, versions, staleness))
                ElementTree.parse(svg)
                for stages in (4, 8):
                    done = pipectl("schedule", "--schedule", *arguments,
                                   "--stages", stages)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertLessEqual(
                        max(map(len, done.stdout.splitlines())), 80)

    def test_impossible_schedules_are_refused_in_one_line(self):
        for arguments, says in (
                (("--schedule", "gpipe", "--weights", "stash"),
                 "expected flush"),
                (("--schedule", "two_version", "--microbatches", 2),
                 "expected 4 or more, the depth of the pipeline"),
                (("--schedule", "two_version", "--replicas", "1,3",
                  "--microbatches", 4), "a multiple of 3"),
                (("--schedule", "model_parallel", "--in-flight", 3),
                 "in_flight is 3, expected 1"),
                (("--microbatches", 4), "it takes whole minibatches"),
                (("--schedule", "interleaved", "--microbatches", 5),
                 "a multiple of 4"),
                (("--schedule", "gpipe", "--chunks", 2),
                 "interleaved runs several"),
                (("--schedule", "zb_h1", "--replicas", "2,1"),
                 "schedule flush takes any"),
                (("--weights", "stsh"), "known policies: stash")):
            with self.subTest(arguments=arguments):
                error = self.check_error(3, None, "schedule", *arguments)
                self.assertIn(says, error["message"])
                self.assertNotIn("\n", error["message"])

    def test_a_job_that_cannot_be_scheduled_is_refused_with_its_field(self):
        for schedule, sets, field, says in (
                ("interleaved", (), "pipeline.schedule", "cannot be run yet"),
                ("zb_h1", (), "pipeline.schedule", "cannot be run yet"),
                ("two_version", ("batch.microbatches=2",),
                 "batch.microbatches", "the depth of the pipeline"),
                ("1f1b", ("batch.microbatches=4",), "batch.microbatches",
                 "it takes whole minibatches"),
                ("model_parallel", ("pipeline.in_flight=2",),
                 "pipeline.in_flight", "1f1b takes any number")):
            with self.subTest(schedule=schedule):
                arguments = ["--set",
                             f"pipeline={{schedule: {schedule}, stages: 3}}"]
                for each in sets:
                    arguments += ["--set", each]
                error = self.check_error(3, "INVALID_SPEC", "validate",
                                         JOBS / "mlp.yaml", *arguments)
                problems = error["problems"]
                self.assertEqual([p["field"] for p in problems], [field])
                self.assertIn(says, " ".join(
                    [problems[0]["expected"], problems[0].get("hint", "")]))

    def test_a_plan_needs_no_server_when_the_devices_are_described(self):
        code, plan = pipectl_json("plan", JOBS / "digits.yaml", "--devices",
                                  "2x2")
        self.assertEqual((code, plan["kind"], plan["feasible"]),
                         (0, "Plan", True))
        self.assertEqual(len(plan["stages"]), 4)
        for key in ("cost_model", "bottleneck_seconds", "predicted_step_ms",
                    "samples_per_second", "bubble", "in_flight", "rivals"):
            self.assertIn(key, plan)
        done = pipectl("plan", JOBS / "digits.yaml", "--devices", "2x2")
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        self.assertIn("Estimated", done.stdout)
        error = self.check_error(3, "INFEASIBLE", "plan", JOBS / "digits.yaml",
                                 "--devices", "1x2")
        self.assertIn("4", error["message"])
        self.assertIn("2", error["message"])
        done = pipectl("plan", JOBS / "digits.yaml", "--devices", "1x2",
                       "--detailed-exitcode")
        self.assertEqual(done.returncode, 21)
        self.check_error(2, None, "plan", JOBS / "digits.yaml", "--devices",
                         "2x2", "--stages", "many")

    def test_completions_parse(self):
        for shell in ("bash", "zsh", "fish"):
            done = pipectl("completion", shell)
            self.assertEqual(done.returncode, 0)
            self.assertIn("checkpoint", done.stdout)
        script = pipectl("completion", "bash").stdout
        check = subprocess.run(
            ["bash", "-c", script + "\nCOMP_WORDS=(pipectl lo);COMP_CWORD=1;"
             "_pipectl;echo ${COMPREPLY[*]};COMP_WORDS=(pipectl local r);"
             "COMP_CWORD=2;_pipectl;echo ${COMPREPLY[*]};"
             "COMP_WORDS=(pipectl local run --nod);COMP_CWORD=3;_pipectl;"
             "echo ${COMPREPLY[*]}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(check.stderr, "")
        self.assertEqual(check.stdout.splitlines(),
                         ["local logs", "run", "--nodes"])

    def test_a_closed_pipe_ends_quietly(self):
        done = subprocess.run(
            ["bash", "-c", f"{BIN}/pipectl explain --recursive | head -1"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.stderr, done.returncode), ("", 0))

    def test_missing_and_truncated_data_are_refused(self):
        spec = (JOBS / "digits.yaml").read_text()
        bad = self.folder / "data.yaml"
        bad.write_text(spec)
        # Relative paths now point into this folder, where there is nothing.
        code, error = self.local_run(bad)
        self.assertEqual(code, 3, error)
        self.assertIn("train_x.npy", json.dumps(error))
        data = self.folder / "digits"
        data.mkdir()
        for name in ("train_x", "train_y", "test_x", "test_y"):
            content = (TESTDATA / "digits" / f"{name}.npy").read_bytes()
            if name == "test_x":
                content = content[:1000]
            (data / f"{name}.npy").write_bytes(content)
        self.state = self.folder / "state2"
        code, error = self.local_run(bad, "--set", f"data.dir={data}")
        self.assertEqual(code, 3, error)
        text = json.dumps(error)
        self.assertIn("test_x.npy", text)
        self.assertRegex(text, r"offset|byte")
        self.assert_nothing_left()


class WithServer(harness.Case):

    def setUp(self):
        super().setUp()
        self.up()

    def test_jobs_live_and_end_and_are_remembered(self):
        job = self.submit(JOBS / "digits.yaml", "--set", "run.epochs=2",
                          "--set", "run.target_accuracy=0", "--name", "two")
        done = self.here("wait", job, timeout=90)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = self.job(job)
        self.assertEqual((shown["state"], shown["name"]), ("SUCCEEDED", "two"))
        self.assertEqual(self.job("name/two")["id"], job)
        self.assertEqual(self.job(job[:6])["id"], job)
        code, listed = self.here_json("jobs")
        self.assertEqual([j["id"] for j in listed["jobs"]], [job])
        code, error = self.here_json("show", "j-zzzzzz")
        self.assertEqual((code, error["kind"]), (4, "Error"))
        code, error = self.here_json("cancel", "j-zzzzzz")
        self.assertEqual(code, 4)
        # A mutation takes no prefix.
        code, error = self.here_json("cancel", job[:6])
        self.assertNotEqual(code, 0)
        # Cancelling what is over changes nothing and is fine.
        code, after = self.here_json("cancel", job)
        self.assertEqual((code, after["state"]), (0, "SUCCEEDED"))

    def test_logs_and_status_show_what_is_asked_for(self):
        job = self.submit(JOBS / "mlp.yaml", "--set", "run={epochs: 1}")
        self.assertEqual(self.here("wait", job, timeout=90).returncode, 0)

        def lines(*arguments):
            code, logs = self.here_json("logs", job, *arguments)
            self.assertEqual((code, logs["kind"]), (0, "LogList"), logs)
            return logs["lines"]

        every = lines()
        self.assertEqual({line["node"] for line in every} >= {"n1", "n2"},
                         True, every)
        self.assertEqual({line["node"] for line in lines("--node", "n1")},
                         {"n1"})
        self.assertEqual(lines("--tail", 1), every[-1:])
        found = lines("--grep", "stage 1 replica [0-9]+ is ready")
        self.assertEqual(len(found), 1, every)
        self.assertEqual(lines("--level", "error"), [])
        for arguments in (("--grep", "("), ("--level", "loud"),
                          ("--stage", "x"), ("--replica", "-1")):
            code, error = self.here_json("logs", job, *arguments)
            self.assertEqual((code, error["reason"]), (2, "USAGE"))
        code, status = self.here_json("status", job, "--stage", 1)
        self.assertEqual([s["index"] for s in status["stages"]], [1])

    def test_the_same_request_id_is_the_same_job(self):
        arguments = (JOBS / "digits.yaml", "--set", "run.epochs=1", "--set",
                     "run.target_accuracy=0", "--request-id", "abc")
        first = self.submit(*arguments)
        second = self.submit(*arguments)
        self.assertEqual(first, second)
        code, error = self.here_json(
            "submit", JOBS / "digits.yaml", "--set", "run.epochs=2",
            "--request-id", "abc")
        self.assertEqual((code, error["reason"]), (5, "REQUEST_ID_REUSED"))

    def test_a_lost_reply_and_its_retry_are_one_job(self):
        # A proxy that passes the request on and cuts the first reply.
        port = int((self.state / "coordinator.address").read_text()
                   .strip().rsplit(":", 1)[1])
        listener = socket.socket()
        self.addCleanup(listener.close)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        lost = []

        def pump(source, sink, drop):
            try:
                while True:
                    data = source.recv(1 << 16)
                    if not data:
                        break
                    if drop and not lost and len(data) > 400:
                        lost.append(len(data))
                        break
                    sink.sendall(data)
            except OSError:
                pass
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

        def serve():
            while True:
                try:
                    near, _ = listener.accept()
                except OSError:
                    return
                far = socket.create_connection(("127.0.0.1", port))
                for arguments in ((near, far, False), (far, near, True)):
                    threading.Thread(target=pump, args=arguments,
                                     daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        done = pipectl("submit", JOBS / "mlp.yaml", "--name", "once",
                       "--server", "127.0.0.1:%d" % listener.getsockname()[1])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(lost), 1)
        code, listed = self.here_json("jobs")
        self.assertEqual([j["id"] for j in listed["jobs"]],
                         [done.stdout.strip()])

    def test_a_checkpoint_of_another_network_is_refused_at_submit(self):
        job = self.submit(JOBS / "mlp.yaml", "--set", "run={epochs: 1}")
        self.assertEqual(self.here("wait", job, timeout=90).returncode, 0)
        code, error = self.here_json("submit", JOBS / "digits.yaml", "--from",
                                     job)
        self.assertEqual((code, error["reason"]), (3, "CHECKPOINT_MISMATCH"))
        folder = Path(self.job(job)["checkpoint"])
        shard = folder / "stage-0.safetensors"
        content = bytearray(shard.read_bytes())
        content[-1] ^= 1
        shard.write_bytes(content)
        code, error = self.here_json("submit", JOBS / "mlp.yaml", "--from",
                                     folder)
        self.assertEqual((code, error["reason"]), (3, "CHECKPOINT_CORRUPT"))
        self.assertIn("stage-0.safetensors", error["message"])
        _, listed = self.here_json("jobs")
        self.assertEqual([j["id"] for j in listed["jobs"]], [job])

    def test_what_a_server_refuses_has_its_line(self):
        spec = self.folder / "far.yaml"
        spec.write_text((JOBS / "mlp.yaml").read_text())
        code, error = self.here_json("submit", spec)
        self.assertEqual((code, error["reason"]), (3, "INVALID_SPEC"))
        for problem in error["problems"]:
            self.assertTrue(problem["file"].endswith("far.yaml"), problem)
            self.assertGreater(problem["line"], 0)
        self.assertNotIn(";", error["message"])

    def test_what_can_never_fit_is_refused_with_the_numbers(self):
        code, error = self.here_json("submit", JOBS / "digits.yaml", "--set",
                                     "pipeline.stages=9")
        self.assertEqual((code, error["reason"]), (3, "INFEASIBLE"))
        self.assertIn("9", error["message"])
        self.assertIn("4", error["message"])

    def test_a_waiting_job_says_what_it_waits_for(self):
        first = self.submit(JOBS / "digits.yaml", "--set", "run.epochs=200",
                            "--set", "run.target_accuracy=0")
        self.wait_state(first, "RUNNING")
        second = self.submit(JOBS / "digits.yaml", "--set", "run.epochs=1",
                             "--set", "run.target_accuracy=0")
        waiting = self.job(second)
        self.assertEqual((waiting["state"], waiting["reason"]),
                         ("QUEUED", "DEVICES_BUSY"))
        self.assertIn(first, waiting["message"])
        self.assertEqual(self.here("cancel", first).returncode, 0)
        done = self.here("wait", second, timeout=90)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.job(first)["state"], "CANCELLED")

    def test_status_nodes_health_plan(self):
        code, nodes = self.here_json("node", "ls")
        self.assertEqual((code, len(nodes["nodes"])), (0, 2))
        self.assertEqual({n["state"] for n in nodes["nodes"]}, {"READY"})
        self.assertEqual(self.here("health").returncode, 0)
        code, error = self.here_json("health", "--service", "nobody")
        self.assertEqual(code, 4)
        code, plan = self.here_json("plan", JOBS / "digits.yaml")
        self.assertEqual((code, plan["kind"]), (0, "Plan"))
        job = self.submit(JOBS / "digits.yaml", "--set", "run.epochs=60",
                          "--set", "run.target_accuracy=0")
        self.wait_step(job, 50)
        done = self.here("status", job)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("RUNNING", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        self.assertEqual(self.here("cancel", job, "--now").returncode, 0)
        done = self.here("wait", job)
        self.assertEqual(done.returncode, 11)

    def test_local_up_down_status(self):
        done = self.here("local", "up", "--listen", "127.0.0.1:0")
        self.assertEqual(done.returncode, 5, done.stderr)
        done = self.here("local", "status")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.here("local", "run", JOBS / "digits.yaml")
        self.assertEqual(done.returncode, 5)
        done = self.here("local", "down")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_nothing_left()
        done = self.here("local", "down")
        self.assertEqual(done.returncode, 4)


if __name__ == "__main__":
    harness.main()
