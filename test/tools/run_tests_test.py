#!/usr/bin/env python3
"""Tests of tools/run_tests.

A fake build folder holds a CTestTestfile.cmake whose tests are one-line shell scripts that write
GoogleTest's JSON, crash, skip or fail. The real ctest runs them; the closing line is compared.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "run_tests"


def gtest_json(*cases):
    """GoogleTest's JSON for cases of suite S given as (name, outcome)."""
    rows = []
    for name, outcome in cases:
        row = {"name": name, "status": "RUN", "result": "COMPLETED"}
        if outcome == "failed":
            row["failures"] = [{"failure": "Expected: true", "type": ""}]
        elif outcome == "skipped":
            row["result"] = "SKIPPED"
        elif outcome == "disabled":
            row["status"], row["result"] = "NOTRUN", "SUPPRESSED"
        rows.append(row)
    return json.dumps({"testsuites": [{"name": "S", "testsuite": rows}]})


class RunTests(unittest.TestCase):

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.build = pathlib.Path(holder.name) / "build"
        self.build.mkdir()
        self.cmake = self.build / "CTestTestfile.cmake"
        self.cmake.write_text("")

    def add(self, name, script, gtest=None, **properties):
        """Adds a CTest test; `gtest` is the JSON that it writes before `script` runs ('' for none)."""
        path = self.build / f"{name}.sh"
        if gtest is not None:
            properties["ENVIRONMENT"] = f"GTEST_OUTPUT=json:{self.build}/test-results/{name}.json"
        if gtest:
            (self.build / f"{name}.in").write_text(gtest)
            script = f"cp {self.build}/{name}.in ${{GTEST_OUTPUT#json:}}\n{script}"
        path.write_text(script + "\n")
        lines = f'add_test({name} "/bin/sh" "{path}")\n'
        for key, value in properties.items():
            lines += f'set_tests_properties({name} PROPERTIES {key} "{value}")\n'
        with self.cmake.open("a") as out:
            out.write(lines)

    def run_tests(self, *arguments, ci=False):
        """Returns (exit status, last line, all output)."""
        environment = {k: v for k, v in os.environ.items() if k != "CI"}
        if ci:
            environment["CI"] = "true"
        done = subprocess.run([sys.executable, SCRIPT, *(arguments or [self.build])],
                              capture_output=True, text=True, env=environment)
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, done.stdout.splitlines()[-1], done.stdout

    def test_cases_of_gtest_binaries_and_plain_tests_are_added_up(self):
        self.add("plain", "exit 0")
        self.add("suite", "exit 0", gtest_json(("A", "passed"), ("B", "passed")))
        self.assertEqual(self.run_tests()[:2], (0, "3 passed, 0 failed, 0 skipped"))

    def test_a_failed_case_is_named_with_its_log(self):
        self.add("suite", "echo what happened; exit 1", gtest_json(("A", "failed"), ("B", "passed")))
        status, last, output = self.run_tests()
        self.assertEqual((status, last), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("suite: S.A (log: ", output)
        self.assertEqual((self.build / "test-results/suite.log").read_text().strip(), "what happened")

    def test_a_crash_without_results_is_one_failure(self):
        self.add("suite", "kill -SEGV $$", gtest="")
        status, last, output = self.run_tests()
        self.assertEqual((status, last), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertIn("suite: failed, without writing its results", output)

    def test_results_of_an_earlier_run_are_not_counted(self):
        self.add("suite", "kill -SEGV $$", gtest="")
        (self.build / "test-results").mkdir()
        (self.build / "test-results/suite.json").write_text(gtest_json(("A", "passed")))
        self.assertEqual(self.run_tests()[:2], (1, "0 passed, 1 failed, 0 skipped"))

    def test_a_gtest_binary_that_ends_early_with_status_0_is_a_failure(self):
        self.add("suite", "exit 0", gtest="")
        self.assertEqual(self.run_tests()[:2], (1, "0 passed, 1 failed, 0 skipped"))

    def test_a_bad_end_after_good_cases_is_a_failure(self):
        self.add("suite", "exit 23", gtest_json(("A", "passed")))
        self.assertEqual(self.run_tests()[:2], (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_skipped_case_is_counted_with_its_reason(self):
        output = ("[ RUN      ] S.A\\nfile.cc:7: Skipped\\npeer minio is missing\\n\\n"
                  "[  SKIPPED ] S.A (0 ms)\\n")
        self.add("suite", f"head -c 5000 /dev/zero | tr '\\0' x; printf '\\n{output}'",
                 gtest_json(("A", "skipped"), ("B", "passed"), ("C", "disabled")))
        status, last, output = self.run_tests()
        self.assertEqual((status, last), (0, "1 passed, 0 failed, 2 skipped"))
        self.assertIn("skipped 1: peer minio is missing\n  suite: S.A\n", output)
        self.assertIn("skipped 1: disabled\n  suite: S.C\n", output)

    def test_a_skip_that_skips_nothing_is_a_failure(self):
        output = ("[----------] 1 test from S\\nfile.cc:7: Skipped\\npeer minio is missing\\n"
                  "[ RUN      ] S.A\\n[       OK ] S.A (0 ms)\\n"
                  "[ RUN      ] S.B\\nfile.cc:9: Skipped\\nwhy\\n[  SKIPPED ] S.B (0 ms)\\n")
        self.add("suite", f"printf '{output}'", gtest_json(("A", "passed"), ("B", "skipped")))
        status, last, output = self.run_tests()
        self.assertEqual((status, last), (1, "1 passed, 1 failed, 1 skipped"))
        self.assertIn("suite: a GTEST_SKIP() skips nothing: call it in SetUp()", output)

    def test_a_skip_of_ctest_takes_its_last_line_as_reason(self):
        self.add("good", "exit 0")
        self.add("plain", "echo no tool; echo; exit 77", SKIP_RETURN_CODE=77)
        self.add("off", "exit 0", DISABLED="TRUE")
        status, last, output = self.run_tests()
        self.assertEqual((status, last), (0, "1 passed, 0 failed, 2 skipped"))
        self.assertIn("skipped 1: no tool\n  plain\n", output)

    def test_many_skips_of_one_reason_are_one_group(self):
        self.add("good", "exit 0")
        for number in range(8):
            self.add(f"plain{number}", "echo no tool; exit 77", SKIP_RETURN_CODE=77)
        output = self.run_tests()[2]
        self.assertIn("skipped 8: no tool\n", output)
        self.assertIn("  and 3 more\n", output)

    def test_in_ci_a_skip_is_a_defect(self):
        self.add("good", "exit 0")
        self.assertEqual(self.run_tests(ci=True)[0], 0)
        self.add("plain", "echo no tool; exit 77", SKIP_RETURN_CODE=77)
        status, last, output = self.run_tests(ci=True)
        self.assertEqual((status, last), (1, "1 passed, 0 failed, 1 skipped"))
        self.assertIn("skips are defects in CI: run tools/peers\n", output)

    def test_a_test_that_cannot_run_is_a_failure(self):
        self.cmake.write_text('add_test(gone "/nonexistent/program")\n')
        status, last, output = self.run_tests()
        self.assertEqual((status, last), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertIn("gone: Unable to find executable", output)

    def test_a_timeout_is_a_failure(self):
        self.add("slow", "exec sleep 30", gtest="", TIMEOUT="0.2")
        self.assertEqual(self.run_tests()[:2], (1, "0 passed, 1 failed, 0 skipped"))

    def test_labels_choose_and_no_test_at_all_is_an_error(self):
        self.add("unit1", "exit 0", LABELS="unit")
        self.add("sim1", "exit 0", LABELS="sim")
        self.add("e2e1", "exit 1", LABELS="e2e")
        self.assertEqual(self.run_tests("--label", "unit", "--label", "sim", self.build)[:2],
                         (0, "2 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.run_tests("--exclude-label", "e2e", self.build)[:2],
                         (0, "2 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.run_tests(f"{self.build}:unit|si")[:2],
                         (0, "2 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.run_tests(f"{self.build}:unit", f"{self.build}:sim")[:2],
                         (0, "2 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.run_tests("--label", "uni", self.build)[:2],
                         (1, "0 passed, 0 failed, 0 skipped"))

    def test_a_folder_that_is_not_built_is_a_failure(self):
        self.add("good", "exit 0")
        status, last, output = self.run_tests(self.build, self.build / "nothing")
        self.assertEqual((status, last), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("configure and build it first", output)


if __name__ == "__main__":
    unittest.main()
