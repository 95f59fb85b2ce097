"""pipectl profile: measured, kept, found again, shown, forgotten."""
import subprocess

import harness
from harness import BIN, JOBS, TESTDATA, pipectl, pipectl_json, wait_until


class WithoutServer(harness.Case):

    def test_it_runs_on_this_machine_and_the_next_run_finds_it(self):
        out = self.folder / "digits.profile"
        done = pipectl("profile", "run", JOBS / "digits.yaml", "--state-dir",
                       self.state, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no coordinator answers", done.stderr)
        wide = [l for l in done.stdout.splitlines() if len(l) > 80]
        self.assertEqual(wide, [])
        for word in ("LAYER", "FORWARD", "SPREAD", "conv1", "total", "link n1"):
            self.assertIn(word, done.stdout)
        self.assert_nothing_left()

        # The file is readable text, shown again and planned with.
        self.assertIn('description: "conv2d(', out.read_text())
        code, shown = pipectl_json("profile", "show", out)
        self.assertEqual((code, shown["kind"]), (0, "Profile"))
        profile = shown["profile"]
        self.assertEqual(shown["layers"], len(profile["layers"]))
        self.assertGreater(profile["measured_at"], 0)
        # A busy device sends it to the other node.
        self.assertIn(profile["measured_on"], ("n1/cpu:0", "n2/cpu:0"))
        for layer in profile["layers"]:
            self.assertGreater(layer["forward_seconds"], 0)
            self.assertGreater(layer["rounds"], 0)
            self.assertTrue(layer["inputs"])
        code, plan = pipectl_json("plan", JOBS / "digits.yaml", "--profile",
                                  out, "--devices", "2x2")
        self.assertEqual(code, 0, plan)
        self.assertFalse(plan["estimated"])

        # A job uses it and says so.
        code, job = self.local_run(JOBS / "digits.yaml", "--set",
                                   "run.epochs=1", "--set",
                                   "run.target_accuracy=0")
        self.assertEqual(code, 0, job)
        done = self.here("show", job["id"], "--events")
        if not profile["noisy"]:
            self.assertEqual(job["profile_seconds"], 0)
        self.assertIn("PROFILE_REUSED", done.stdout)
        self.assertIn("measured on n", done.stdout)

    def test_bad_files_are_refused_with_their_place(self):
        done = pipectl("profile", "show", self.folder / "none.txt")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("none.txt", done.stderr)
        done = pipectl("profile", "show", str(self.folder))
        self.assertEqual(done.returncode, 2, done.stderr)
        bad = self.folder / "bad.txt"
        for text in ("layers { name: ", "no profile at all\n",
                     'layers { name: "a" forward_seconds: -1 }'):
            bad.write_text(text)
            done = pipectl("profile", "show", bad)
            self.assertEqual(done.returncode, 3, (text, done.stderr))
            self.assertIn("bad.txt", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_without_a_server_a_list_says_so(self):
        dead = ("--server", "127.0.0.1:1")
        for words in (("ls",), ("show", "p-abcdef"), ("rm", "p-abcdef"),
                      ("run", JOBS / "digits.yaml")):
            done = pipectl("profile", *words, *dead)
            self.assertEqual(done.returncode, 7, (words, done.stderr))

    def test_an_operation_that_is_not_known_is_named_before_any_device(self):
        text = (JOBS / "mlp.yaml").read_text()
        model = "model: {name: mlp, args: {hidden: [64, 32]}}"
        self.assertIn(model, text)
        spec = self.folder / "warp.yaml"
        spec.write_text(text.replace("../digits", str(TESTDATA / "digits"))
                        .replace(model, "model: {layers: [{name: a, type: "
                                 "warp}, {name: loss, type: "
                                 "softmax_cross_entropy}]}"))
        done = pipectl("profile", "run", spec, "--server", "127.0.0.1:1")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("warp", done.stderr)


class OnACluster(harness.Case):

    def test_profiles_are_listed_shown_and_forgotten(self):
        self.up("--nodes", "1")
        code, first = self.here_json("profile", "run", JOBS / "digits.yaml")
        self.assertEqual((code, first["kind"]), (0, "ProfileList"))
        self.assertEqual(len(first["profiles"]), 1)
        stored = first["profiles"][0]
        self.assertFalse(stored["reused"])
        ident = stored["id"]
        code, second = self.here_json("profile", "run", JOBS / "digits.yaml")
        self.assertEqual(code, 0)
        self.assertEqual(second["profiles"][0]["id"], ident)
        if not stored["profile"]["noisy"]:
            self.assertTrue(second["profiles"][0]["reused"])
        code, again = self.here_json("profile", "run", JOBS / "digits.yaml",
                                     "--again")
        self.assertEqual(code, 0)
        self.assertFalse(again["profiles"][0]["reused"])

        code, listed = self.here_json("profile", "ls")
        self.assertEqual([p["id"] for p in listed["profiles"]], [ident])
        self.assertEqual(self.here("profile", "ls", "-o", "name").stdout,
                         f"profile/{ident}\n")
        self.assertIn(ident, self.here("profile", "ls").stdout)
        for flag, right in (("--model", stored["profile"]["name"]),
                            ("--device-class",
                             stored["profile"]["device_kind"])):
            for value, count in ((right, 1), ("none of them", 0)):
                code, some = self.here_json("profile", "ls", flag, value)
                self.assertEqual((code, len(some["profiles"])), (0, count))
        code, shown = self.here_json("profile", "show", ident[:7])
        self.assertEqual((code, shown["id"]), (0, ident))
        done = self.here("profile", "show", ident, "--out", "-")
        self.assertIn("layers {", done.stdout)

        done = self.here("profile", "show", "p-zzzzzz")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(self.here("profile", "rm", ident).returncode, 0)
        self.assertEqual(self.here("profile", "rm", ident).returncode, 4)
        code, listed = self.here_json("profile", "ls")
        self.assertEqual(listed["profiles"], [])
        done = self.here("profile", "run", JOBS / "digits.yaml",
                         "--device-class", "cpu x9")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("expected one of", done.stderr)

    def test_each_kind_of_device_has_its_profile(self):
        self.up("--nodes", "1", "--devices-per-node", "1")
        address = (self.state / "coordinator.address").read_text().strip()
        other = subprocess.Popen(
            [BIN / "piped", "--coordinator", address, "--name", "other",
             "--device-kind", "cpu x1 other", "--state-dir",
             self.folder / "other"], stderr=subprocess.DEVNULL)
        self.addCleanup(other.wait)
        self.addCleanup(other.terminate)
        wait_until("the other node is there", lambda: "cpu x1 other" in
                   self.here("node", "ls", "-o", "json").stdout)
        code, run = self.here_json("profile", "run", JOBS / "digits.yaml")
        self.assertEqual(code, 0, run)
        kinds = {p["profile"]["device_kind"] for p in run["profiles"]}
        self.assertEqual(len(kinds), 2)
        self.assertIn("cpu x1 other", kinds)
        self.assertEqual({p["profile"]["measured_on"].split("/")[0]
                          for p in run["profiles"]}, {"n1", "other"})
        links = run["topology"]["links"]
        self.assertEqual([(l["a"], l["b"], l["measured"]) for l in links],
                         [("n1", "other", True)])
        self.assertGreater(links[0]["bytes_per_second"], 0)
        # A job may use both.
        job = self.submit(JOBS / "digits.yaml", "--set", "run.epochs=1",
                          "--set", "run.target_accuracy=0", "--set",
                          "pipeline.stages=2")
        self.wait_state(job, "SUCCEEDED", seconds=60)


if __name__ == "__main__":
    harness.main()
