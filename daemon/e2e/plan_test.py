"""pipectl plan: profiles, clusters, plans fed back, predicted and measured."""
import json
import subprocess
import unittest
import xml.etree.ElementTree

import harness
from harness import JOBS, TESTDATA, pipectl, pipectl_json

PROFILES = TESTDATA / "profiles"
CLUSTERS = TESTDATA / "clusters"


class Plans(harness.Case):

    def plan(self, *arguments):
        code, plan = pipectl_json("plan", *arguments)
        self.assertEqual((code, plan["kind"]), (0, "Plan"), plan)
        return plan

    def refused(self, code, words, *arguments):
        """One line on stderr with `words`, and one Error object."""
        plain = pipectl("plan", *arguments)
        self.assertEqual(plain.returncode, code, (arguments, plain.stderr))
        lines = plain.stderr.splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(words, lines[0])
        got, error = pipectl_json("plan", *arguments)
        self.assertEqual((got, error["kind"], error["code"]),
                         (code, "Error", code))

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_a_profile_alone_is_planned(self):
        plan = self.plan("--profile", PROFILES / "vgg16" / "graph.txt",
                         "--devices", "4", "--bandwidth", "1e9")
        self.assertTrue(plan["feasible"])
        layers = [name for stage in plan["stages"] for name in stage["layers"]]
        self.assertEqual(len(layers), len(set(layers)))
        self.assertGreater(len(layers), 30)
        for key in ("cost_model", "bottleneck_seconds", "predicted_step_ms",
                    "samples_per_second", "bubble", "in_flight", "rivals",
                    "alternatives"):
            self.assertIn(key, plan)
        for key in ("index", "layers", "replicas", "devices", "seconds",
                    "weight_bytes", "stash_bytes", "activation_bytes",
                    "total_bytes", "limit_bytes"):
            self.assertIn(key, plan["stages"][0])
        page = pipectl("plan", "--profile", PROFILES / "vgg16" / "graph.txt",
                       "--devices", "4,4", "--bandwidth", "8e9,1.25e9",
                       "--explain", "--alternatives", "1")
        self.assertEqual(page.returncode, 0, page.stderr)
        self.assertIn("job vgg16", page.stdout)
        self.assertIn("Number 2", page.stdout)
        self.assertLessEqual(max(map(len, page.stdout.splitlines())), 80)

    def test_the_public_optimizer_s_figures(self):
        hierarchy = ("--devices", "4,4", "--bandwidth", "8e9,1.25e9")
        for name, cluster, seconds in (
                ("vgg16", ("--devices", "4", "--bandwidth", "1e9"),
                 0.175732624),
                ("vgg16", hierarchy, 0.04430422746666667),
                ("resnet50", hierarchy, 0.028791528),
                ("gnmt", hierarchy, 0.011081)):
            with self.subTest(name=name, cluster=cluster):
                plan = self.plan("--profile", PROFILES / name / "graph.txt",
                                 *cluster, "--cost-model", "public_code")
                self.assertAlmostEqual(plan["bottleneck_seconds"], seconds,
                                       delta=1e-9)

    def test_no_link_carries_more_than_it_can(self):
        for name in ("vgg16", "alexnet", "gnmt"):
            with self.subTest(name=name):
                plan = self.plan("--profile", PROFILES / name / "graph.txt",
                                 "--devices", "4,4", "--bandwidth",
                                 "1e9,1.25e9")
                self.assertTrue(plan["links"])
                for link in plan["links"]:
                    self.assertLessEqual(
                        link["bytes_per_second"],
                        link["limit_bytes_per_second"] * (1 + 1e-9), link)

    def test_no_part_of_a_plan_is_slower_than_its_step(self):
        for network in ("alexnet", "vgg16", "gnmt", "resnet50"):
            for cluster in ("cluster_a", "cluster_b", "cluster_c"):
                with self.subTest(network=network, cluster=cluster):
                    plan = self.plan("--profile",
                                     PROFILES / network / "graph.txt",
                                     "--topology",
                                     CLUSTERS / f"{cluster}.txtpb")
                    step = plan["predicted_step_ms"] / 1e3 * (1 + 1e-9)
                    self.assertLessEqual(plan["bottleneck_seconds"], step)
                    for stage in plan["stages"]:
                        self.assertLessEqual(stage["seconds"], step)

    def test_the_steady_state_is_drawn(self):
        base = ("--profile", PROFILES / "alexnet" / "graph.txt", "--devices",
                "2,2", "--bandwidth", "8e9,1.25e9", "--stages", "3")
        svg = self.folder / "plan.svg"
        trace = self.folder / "plan.json"
        text = self.folder / "plan.txt"
        plan = self.plan(*base, "--timeline", svg)
        self.plan(*base, "--timeline", trace)
        self.plan(*base, "--timeline", text)
        picture = xml.etree.ElementTree.parse(svg).getroot()
        self.assertTrue(picture.tag.endswith("svg"))
        events = json.loads(trace.read_text())["traceEvents"]
        spans = [event for event in events if event["ph"] == "X"]
        # Every stage runs forwards and backwards, for some steps.
        self.assertEqual(
            {(event["tid"], event["name"][0]) for event in spans},
            {(tid, kind) for tid in {event["tid"] for event in spans}
             for kind in "FB"})
        ends = [event["ts"] + event["dur"] for event in spans]
        self.assertGreater(max(ends), 3000 * plan["predicted_step_ms"])
        page = pipectl("plan", *base, "--timeline", "-")
        lanes = [line for line in page.stdout.splitlines()
                 if line.startswith(("s0 ", "s1 ", "s2 "))]
        self.assertEqual(len(lanes), 3)
        self.assertEqual(text.read_text().splitlines()[:3], lanes)
        self.refused(2, "--timeline: file is ", *base, "--timeline", "plan.png")
        self.refused(2, "cannot be written", *base, "--timeline",
                     self.folder / "none" / "plan.svg")

    def test_the_clusters_of_the_paper_can_be_planned_for(self):
        for cluster in sorted(CLUSTERS.glob("cluster_*.txtpb")):
            with self.subTest(cluster=cluster.name):
                plan = self.plan("--profile",
                                 PROFILES / "alexnet" / "graph.txt",
                                 "--topology", cluster)
                self.assertTrue(plan["feasible"])
                self.assertRegex(plan["stages"][0]["devices"][0],
                                 r"^n[0-9]+/cuda:[0-9]+$")

    def test_limits_and_pins_are_kept(self):
        base = ("--profile", PROFILES / "alexnet" / "graph.txt", "--devices",
                "4", "--bandwidth", "8e9")
        self.assertEqual(len(self.plan(*base, "--stages", "3")["stages"]), 3)
        few = self.plan(*base, "--max-stages", "2")
        self.assertLessEqual(len(few["stages"]), 2)
        straight = self.plan(*base, "--straight")
        self.assertEqual({s["replicas"] for s in straight["stages"]}, {1})
        one = self.plan(*base, "--stages", "2", "--in-flight", "1")
        self.assertEqual(one["in_flight"], 1)
        tight = self.plan(*base, "--memory-limit", "3GiB")
        for stage in tight["stages"]:
            self.assertLessEqual(stage["total_bytes"], 3 << 30)
        self.refused(3, "plan: ", *base, "--memory-limit", "1MB")

    def test_bad_clusters_are_refused_in_one_line(self):
        profile = ("--profile", PROFILES / "alexnet" / "graph.txt")
        node = 'nodes { name: "a" devices { name: "cpu:0" } } '
        rows = (
            ("", "the number of devices is 0"),
            ("levels { count: 0 bytes_per_second: 1 }", "count is 0"),
            ("levels { count: 2 bytes_per_second: 0 }",
             "bytes_per_second is 0"),
            ("levels { count: 2 bytes_per_second: nan }",
             "bytes_per_second is nan"),
            (node + node, "there twice"),
            (node + 'links { a: "a" b: "b" bytes_per_second: 1 }',
             'links[0]: b is "b"'),
            ("levels { count: 2 bytes_per_sec", ":1:"),
            ("levels { count: 2000000 bytes_per_second: 1 }", "65536"),
            ("levels { count: 4 bytes_per_second: 1e300 }",
             "bytes_per_second is 1e+300"),
            ("levels { count: 4 bytes_per_second: 1 latency_seconds: 1e300 }",
             "latency_seconds is 1e+300"),
            ("levels { count: 4 bytes_per_second: 1 } "
             "device { relative_speed: 1e300 }", "relative_speed is 1e+300"),
            ("levels { count: 4 bytes_per_second: 1 } "
             'device { name: "\\377" }', "printable ASCII"),
        )
        for text, words in rows:
            with self.subTest(text=text):
                file = self.file("bad.txtpb", text)
                self.refused(3, words, *profile, "--topology", file)
        self.refused(2, "cannot be opened", *profile, "--topology",
                     self.folder / "none")
        for flags in (("--devices", "0"), ("--devices", "4,0"),
                      ("--devices", "0x4"), ("--devices", "4", "--bandwidth",
                                             "0"),
                      ("--devices", "4", "--bandwidth", "nan"),
                      ("--devices", "4,4", "--bandwidth", "8e9"),
                      ("--devices", "4", "--latency", "-1"),
                      ("--devices", "4", "--cost-model", "magic"),
                      ("--devices", "4", "--memory-limit", "much"),
                      ("--devices", "4", "--in-flight", "0"),
                      ("--devices", "4", "--max-stages", "0"),
                      ("--devices", "4", "--profile-batch", "0"),
                      ("--devices", "4", "--profile-batch", "10000000000"),
                      ("--devices", "4", "--minibatch", "10000000000"),
                      ("--devices", "4", "--alternatives", "101"),
                      ("--devices", "4", "--in-flight", "65537"),
                      ("--devices", "4", "--bandwidth", "1e300"),
                      ("--devices", "4", "--latency", "1e300"),
                      ("--devices", "4x2", "--latency", "1e300"),
                      ("--devices", "4", "--memory-limit", "0"),
                      ("--devices", "4", "--set", "run.epochs=1")):
            with self.subTest(flags=flags):
                self.refused(2, flags[-2], *profile, *flags)

    def test_bad_profiles_are_refused_in_one_line(self):
        line = ("node{0} -- Linear({0}) -- forward_compute_time={1}, "
                "backward_compute_time=1.0, activation_size=1.0, "
                "parameter_size=1.0\n")
        good = line.format(1, "1.0") + line.format(2, "1.0") + "\tnode1 -- node2\n"
        rows = (
            ("", "layers is 0"),
            (good + "\tnode2 -- node1\n", "cycl"),
            (good + "\tnode1 -- node9\n", "node9"),
            (good.replace("=1.0,", "=-1.0,", 1), ":1"),
            (good.replace("=1.0,", "=nan,", 1), ":1"),
            (good[:30], ":1"),
            ("#" * (11 << 20), "size"),
            ("a" * (1 << 20), 'no field named "aaa'),
            (good + line.format(3, "1.0") + line.format(4, "1.0") +
             "\tnode3 -- node4\n", "in pieces"),
            ('layers { name: "a\\033[31m" }', "printable ASCII"),
        )
        for text, words in rows:
            with self.subTest(text=text[:40]):
                self.refused(3, words, "--profile",
                             self.file("graph.txt", text), "--devices", "4")
                page = pipectl("plan", "--profile", self.folder / "graph.txt",
                               "--devices", "4")
                self.assertLess(len(page.stderr), 500)
        self.refused(2, "cannot be opened", "--profile", self.folder / "none",
                     "--devices", "4")
        self.refused(2, "SPEC is missing", "--devices", "4")
        self.refused(3, "stages", "--profile", self.file("two.txt", good),
                     "--devices", "4", "--stages", "3")


    def test_a_value_of_a_flag_is_one_word(self):
        code, plan = pipectl_json("plan", "--set", "run.epochs=1",
                                  JOBS / "digits.yaml", "--devices", "4")
        self.assertEqual((code, plan["kind"]), (0, "Plan"), plan)
        # A profile of another graph: which file, and both numbers.
        profile = PROFILES / "alexnet" / "graph.txt"
        self.refused(3, f"{profile}: profile: its number of layers is 22, "
                     "expected 13", "--profile", profile, JOBS / "digits.yaml",
                     "--devices", "4")
        self.refused(3, "another kind", "--profile", profile, "--profile",
                     profile, "--devices", "4")
        self.refused(2, "is empty", "--profile", "", "--devices", "4")
        self.refused(2, "one word too many", JOBS / "digits.yaml", "b")

    def test_flags_that_a_coordinator_has_no_use_for_are_refused(self):
        for flag, value in (("--bandwidth", "1e9"), ("--latency", "1e-3"),
                            ("--profile-batch", "4")):
            self.refused(2, flag, JOBS / "digits.yaml", flag, value)

    def test_a_full_disk_is_named(self):
        for form in ("table", "json"):
            with open("/dev/full", "w") as full:
                done = subprocess.run(
                    [str(harness.BIN / "pipectl"), "plan", "--profile",
                     str(PROFILES / "alexnet" / "graph.txt"), "--devices", "4",
                     "-o", form], stdout=full, stderr=subprocess.PIPE,
                    text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.splitlines(), [
                "error: standard output: cannot be written: "
                "No space left on device"])


class PlansOfACluster(harness.Case):

    def setUp(self):
        super().setUp()
        self.up()

    def test_a_plan_is_accepted_back_and_gives_the_same_placement(self):
        spec = (JOBS / "digits.yaml", "--set", "run={epochs: 1}")
        code, plan = self.here_json("plan", *spec, "--set",
                                    "pipeline.stages=3")
        self.assertEqual((code, plan["feasible"]), (0, True), plan)
        # A placement that no planner would choose: devices turned round.
        devices = [stage["devices"] for stage in plan["stages"]]
        for stage, others in zip(plan["stages"], devices[1:] + devices[:1]):
            stage["devices"] = others
        file = self.folder / "plan.json"
        file.write_text(json.dumps(plan))
        code, job = self.here_json("submit", *spec, "--plan", file, "--wait",
                                   timeout=120)
        self.assertEqual((code, job["state"]), (0, "SUCCEEDED"), job)
        code, job = self.here_json("show", job["id"])
        seats = [f'{seat["node"]}/{seat["device"]}'
                 for seat in job["placement"]["seats"]]
        self.assertEqual(seats, sum(devices[1:] + devices[:1], []))
        self.assertEqual([stage["layers"] for stage in job["plan"]["stages"]],
                         [stage["layers"] for stage in plan["stages"]])
        self.assertEqual(job["plan"]["in_flight"], plan["in_flight"])

        # And what came of it.
        code, difference = self.here_json("plan", "diff", job["id"])
        self.assertEqual((code, difference["kind"]), (0, "PlanDifference"))
        self.assertEqual(len(difference["stages"]), 3)
        self.assertGreater(difference["measured_step_ms"], 0)
        for stage in difference["stages"]:
            self.assertGreater(stage["predicted_step_ms"], 0)
            self.assertGreater(stage["ratio"], 0)
        self.assertIn("Largest difference: stage", difference["summary"])
        page = self.here("plan", "diff", job["id"])
        self.assertEqual(page.returncode, 0, page.stderr)
        self.assertLessEqual(max(map(len, page.stdout.splitlines())), 80)
        code, error = self.here_json("plan", "diff", "j-zzzzzz")
        self.assertEqual(code, 4, error)
        code, error = self.here_json("plan", "diff")
        self.assertEqual(code, 2, error)

    def test_the_exit_code_says_whether_a_job_would_wait(self):
        spec = JOBS / "digits.yaml"

        def code(*arguments):
            return self.here("plan", spec, "--detailed-exitcode",
                             *arguments).returncode

        self.assertEqual(code(), 0)
        self.assertEqual(code("--set", "pipeline.stages=9"), 21)
        job = self.submit(spec, "--set", "run={epochs: 100000}")
        self.wait_step(job, 1)
        self.assertEqual(code(), 20)
        self.assertEqual(code("--set", "pipeline.stages=1"), 20)
        self.assertEqual(code("--set", "pipeline.stages=9"), 21)
        self.assertEqual(self.here("cancel", job).returncode, 0)
        self.wait_state(job, "CANCELLED")
        self.assertEqual(code(), 0)

    def test_a_plan_that_does_not_fit_is_refused_in_one_line(self):
        code, plan = self.here_json("plan", JOBS / "digits.yaml")
        self.assertEqual(code, 0, plan)

        def refused(code, words, change):
            other = json.loads(json.dumps(plan))
            change(other)
            file = self.folder / "other.json"
            file.write_text(json.dumps(other))
            done = self.here("submit", JOBS / "digits.yaml", "--plan", file)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(words, done.stderr)
            return done.stderr

        def rename(other):
            other["stages"][1]["layers"][0] = "nowhere"

        lines = refused(3, "nowhere", rename)
        self.assertEqual(len(lines.splitlines()), 1, lines)
        refused(3, "schedule", lambda other: other.update(schedule="flush"))
        refused(3, "without stages", lambda other: other.update(stages=[]))
        refused(3, "not feasible", lambda other: other.update(feasible=False))
        refused(3, "there twice",
                lambda other: other["stages"].append(other["stages"][0]))
        refused(3, "not readable", lambda other: other.update(stages="many"))
        refused(3, "replicas is -1",
                lambda other: other["stages"][0].update(replicas=-1))
        refused(3, "in_flight is -1",
                lambda other: other.update(in_flight=-1))
        lines = refused(3, "its schedule is aaa",
                        lambda other: other.update(schedule="a" * (10 << 20)))
        self.assertLess(len(lines), 500)
        # What the coordinator finds lies in the plan, not in the spec.
        lines = refused(3, "other.json",
                        lambda other: other["stages"].reverse())
        self.assertNotIn("digits.yaml", lines)
        self.assertIn("  stages[", lines)

        # Both sides of a contradiction.
        done = self.here("plan", JOBS / "digits.yaml", "--max-stages", "2")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("the number of stages is 4, expected at most 2",
                      done.stderr)
        done = self.here("submit", JOBS / "digits.yaml", "--plan",
                         self.folder / "none")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("cannot be opened", done.stderr)


if __name__ == "__main__":
    harness.main()
