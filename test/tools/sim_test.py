#!/usr/bin/env python3
"""Tests of tools/sim.

A fake simulator is a script that answers as nstance-sim does: it passes, violates an invariant,
crashes, differs between runs or refuses its flags, by its seed; with a planted bug by "bug:seed"
first. It notes how it was called.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "sim"

FAKE = '''#!/usr/bin/env python3
import json, os, pathlib, sys
arguments = sys.argv[1:]
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    calls.write(" ".join(arguments) + "\\n")
plan = json.loads((here / "plan.json").read_text())
if "--plants" in arguments:
    print("\\n".join(plan["plants"]))
    sys.exit(0)
bug = arguments[arguments.index("--plant") + 1] + ":" if "--plant" in arguments else ""
first = int(arguments[arguments.index("--seed") + 1])
if "--json" not in arguments:
    print("replay of", *arguments)
    sys.exit(1)
count = int(arguments[arguments.index("--count") + 1])
failures = []
if plan.get("together") and count > 1 and first == 0:
    os.abort()
for seed in range(first, first + count):
    what = plan.get(bug + str(seed), plan.get(str(seed)))
    if what == "crash":
        print("CHECK failed", file=sys.stderr)
        os.abort()
    if what == "refused":
        print("nstance-sim: no such event", file=sys.stderr)
        sys.exit(2)
    if what:
        failures.append({"seed": seed, "invariant": what, "what": "two VMs  for\\none instance"})
print(json.dumps({"runs": count, "tasks": 7 * count, "simulated_s": 1500 * count,
                  "cells": {"C1.F1": count}, "reached": ["alarms_total{x}"], "failures": failures}))
sys.exit(1 if failures else 0)
'''


class Sim(unittest.TestCase):

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.program = self.folder / "fake"
        self.program.write_text(FAKE)
        self.program.chmod(0o755)
        (self.folder / "cells.tsv").write_text(
            "step\tfault\tcell\nC1\tF1\trequired\nC1\tF2\trequired\nC1\tF3\tn/a: no call\n")
        (self.folder / "reached.tsv").write_text(
            "mark\tneed\nalarms_total{x}\trequired\nholds{brake}\trequired\nholds{y}\tn/a: never\n")

    def sim(self, plan, *arguments):
        """(exit status, output) of a run in which seeds do what `plan` says."""
        done = self.run_sim(plan, *arguments)
        return done.returncode, done.stdout + done.stderr

    def sim_out(self, plan, *arguments):
        """The same without what is told while it runs."""
        done = self.run_sim(plan, *arguments)
        return done.returncode, done.stdout

    def run_sim(self, plan, *arguments):
        (self.folder / "plan.json").write_text(json.dumps(plan))
        return subprocess.run(
            [sys.executable, SCRIPT, self.program, "--cells", self.folder / "cells.tsv", "--marks",
             self.folder / "reached.tsv", "--jobs", "1", *arguments],
            capture_output=True, text=True, check=False)

    def calls(self):
        return (self.folder / "calls").read_text().splitlines()

    def test_seeds_that_pass_end_with_what_was_never_hit(self):
        status, output = self.sim({}, "--seeds", "45", "--from", "90")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"\b45 runs in \d+s, [\d.]+ seeds/s")
        self.assertIn("cells 1 of 2 hit", output)
        self.assertIn("cells never hit (1):\n  C1.F2", output)
        self.assertIn("marks never reached (1):\n  holds{brake}", output)

    def test_one_seed_in_a_hundred_runs_twice_wherever_the_seeds_begin(self):
        self.sim({}, "--seeds", "40", "--from", "93")
        self.assertTrue(all("--twice-every 100" in call for call in self.calls()), self.calls())

    def test_the_first_failure_ends_it_and_is_replayed(self):
        status, output = self.sim({"25": "I-15"}, "--seeds", "2000")
        self.assertEqual(status, 1)
        self.assertIn("first failure: seed 25 I-15", output)
        self.assertIn("replay of --seed 25\n", output)
        self.assertLess(len(self.calls()), 5)

    def test_two_runs_that_differ_are_shown_with_both(self):
        _, output = self.sim({"100": "I-45"}, "--seeds", "20", "--from", "100")
        self.assertIn("replay of --seed 100 --twice\n", output)

    def test_a_crash_is_blamed_on_the_seed_that_crashes(self):
        status, output = self.sim({"33": "crash"}, "--seeds", "60")
        self.assertEqual(status, 1)
        self.assertIn("first failure: seed 33 I-44", output)
        self.assertIn("CHECK failed", output)
        self.assertIn("replay of --seed 33\n", output)

    def test_keep_going_lists_every_failure_and_runs_all_seeds(self):
        plan = {"3": "I-15", "7": "crash", "41": "I-21"}
        status, output = self.sim(plan, "--seeds", "60", "--keep-going", "--quiet")
        self.assertEqual(status, 1)
        self.assertIn("59 runs in ", output)
        self.assertIn("       3  I-15       two VMs for one instance\n", output)
        self.assertIn("       7  I-44       the process ended with", output)
        self.assertIn("      41  I-21 ", output)
        self.assertNotIn("replay of", output)

    def test_the_table_of_failures_ends_with_the_command_for_the_first_one(self):
        for plan, flags in (({"41": "I-15", "7": "I-21"}, "--seed 7"),
                            ({"8": "I-45"}, "--seed 8 --twice"),
                            ({"9": "crash"}, "--seed 9"),
                            ({"together": "crash"}, "--seed 0 --count 20")):
            with self.subTest(plan=plan):
                _, output = self.sim_out(plan, "--seeds", "60", "--keep-going", "--quiet")
                self.assertEqual(output.splitlines()[-1], f"{self.program} {flags}")

    def test_the_progress_line_tells_about_how_long_it_will_take(self):
        _, output = self.sim({}, "--seeds", "60")
        first, last = [line for line in output.splitlines() if " runs in " in line]
        self.assertRegex(first, r"^20 runs in \d+s, about \d+s left, ")
        self.assertRegex(last, r"^60 runs in \d+s, [\d.]+ seeds/s")

    def test_without_a_number_of_seeds_nobody_knows_how_long_it_will_take(self):
        _, output = self.sim({}, "--minutes", "0.01")
        self.assertIn(" runs in ", output)
        self.assertNotIn("left", output)

    def regress(self, plan, rows, heading="seed\tflags\twhat"):
        table = self.folder / "regress.tsv"
        table.write_text("\n".join([heading, *rows]) + "\n")
        return self.sim(plan, "--regress", table)

    def test_the_table_of_old_failures_is_replayed_with_the_flags_of_each(self):
        rows = ["12\t-\ta late VM",
                "13\t--keep 2,5 --cut a=1,19=2s --schedule clog --cell C4.F8 --liveness\ttwo leaders"]
        status, output = self.regress({"13": "I-2"}, rows)
        self.assertEqual(status, 1)
        self.assertIn("12  a late VM: holds", output)
        self.assertIn("13  two leaders: violates I-2", output)
        self.assertIn("1 of 2 seeds hold", output)
        self.assertEqual(sorted(self.calls()),
                         ["--seed 12 --count 1 --json",
                          "--seed 13 --count 1 --json --keep 2,5 --cut a=1,19=2s --schedule clog "
                          "--cell C4.F8 --liveness"])

    def test_a_row_of_another_shape_is_refused_by_its_line(self):
        for row, why in (("12\ta late VM", "a row is seed, flags and what it found"),
                         ("12\t-\ta late VM\tmore", "a row is seed, flags and what it found"),
                         ("12\t\ta late VM", "none of them empty"),
                         ("", "a row is seed, flags and what it found"),
                         ("x12\t-\ta late VM", '"x12" is no seed'),
                         ("12\tall\ta late VM", '"all" is none of --keep'),
                         ("12\t--trace\ta late VM", '"--trace" is none of --keep'),
                         ("12\t--keep\ta late VM", "no value after --keep"),
                         ("12\t--keep --liveness\ta late VM", "no value after --keep"),
                         ("12\t--keep '1\ta late VM", "No closing quotation")):
            with self.subTest(row=row):
                status, output = self.regress({}, ["11\t-\tfine", row])
                self.assertEqual(status, 1)
                self.assertIn("regress.tsv:3: ", output)
                self.assertIn(why, output)
                self.assertNotIn("Traceback", output)
                self.assertFalse((self.folder / "calls").exists())

    def test_a_table_with_other_columns_is_refused(self):
        status, output = self.regress({}, ["12\tall\ta late VM"], heading="seed\tkeep\twhat")
        self.assertEqual(status, 1)
        self.assertIn("regress.tsv:1: the columns are seed, flags, what", output)
        self.assertNotIn("Traceback", output)

    def test_flags_that_the_simulator_refuses_are_no_violation(self):
        status, output = self.regress({"12": "refused"}, ["12\t--keep 999\ta late VM"])
        self.assertEqual(status, 1)
        self.assertIn("--seed 12 --count 1 --json --keep 999: nstance-sim: no such event", output)
        self.assertNotIn("I-44", output)
        self.assertNotIn("Traceback", output)

    def mutants(self, plan, *arguments):
        """The hunt for two bugs, of which the lines name I-3 and I-21 or I-22."""
        header = self.folder / "fault_point.h"
        header.write_text("  kNone,\n  kNoMargin,  // Too long. I-3.\n"
                          "  kC5Forgets,  // A slot. I-21, I-22.\n")
        return self.sim({"plants": ["no-margin", "c5-forgets"], **plan}, "--mutants", "--header",
                        header, "--starts", "1", "--most", "9", *arguments)

    def test_a_planted_bug_is_found_by_the_first_seed_that_fails_with_it(self):
        status, output = self.mutants({"no-margin:4": "I-3", "no-margin:5": "I-3",
                                       "c5-forgets:0": "I-22"})
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"no-margin +5  I-3 \(seed 4\)\n")
        self.assertRegex(output, r"c5-forgets +1  I-22 \(seed 0\)\n")
        self.assertIn("found 2 of 2 planted bugs, half of the searches within 1 seeds", output)
        self.assertFalse(any("--seed 5 " in call for call in self.calls()), self.calls())

    def test_a_seed_that_fails_without_the_bug_finds_nothing(self):
        plan = {"no-margin:2": "I-3", "2": "I-15", "c5-forgets:2": "I-21", "c5-forgets:6": "I-21"}
        status, output = self.mutants(plan)
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"no-margin +-  not found in 9 seeds; failing without it: seeds 2\n")
        self.assertRegex(output, r"c5-forgets +7  I-21 \(seed 6\); failing without it: seeds 2\n")
        self.assertIn("found 1 of 2 planted bugs", output)
        self.assertIn("not found: no-margin\n", output)
        # Without a bug each seed is tried once.
        self.assertEqual(self.calls().count("--seed 2 --count 1 --json"), 1)

    def test_an_invariant_that_the_bugs_line_does_not_name_finds_nothing(self):
        status, output = self.mutants({"no-margin:1": "I-7", "no-margin:3": "I-3",
                                       "c5-forgets:8": "I-3"})
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"no-margin +4  I-3 \(seed 3\); not named in its line: I-7 \(seed 1\)")
        self.assertRegex(output, r"c5-forgets +-  not found .* not named in its line: I-3 \(seed 8\)")

    def test_the_table_has_what_was_found_and_keeps_what_was_not_looked_for(self):
        table = self.folder / "plants.tsv"
        self.mutants({"no-margin:4": "I-3", "c5-forgets:0": "I-22"}, "--table", table)
        self.assertEqual(table.read_text(),
                         "plant\tseed\tinvariant\nno-margin\t4\tI-3\nc5-forgets\t0\tI-22\n")
        self.mutants({"no-margin:7": "I-3"}, "--table", table, "--only", "no-margin")
        self.assertEqual(table.read_text(),
                         "plant\tseed\tinvariant\nno-margin\t7\tI-3\nc5-forgets\t0\tI-22\n")
        self.mutants({}, "--table", table, "--only", "no-margin")
        self.assertEqual(table.read_text(),
                         "plant\tseed\tinvariant\nno-margin\t-\t-\nc5-forgets\t0\tI-22\n")

    def test_a_bug_that_no_start_led_to_is_known_by_the_seed_of_the_table(self):
        table = self.folder / "plants.tsv"
        rows = "plant\tseed\tinvariant\nno-margin\t4711\tI-3\nc5-forgets\t-\t-\n"
        table.write_text(rows)
        status, output = self.mutants({"no-margin:4711": "I-3", "c5-forgets:0": "I-22"},
                                      "--table", table)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"no-margin +>9  I-3 \(seed 4711, which the table has\)")
        self.assertIn("found 2 of 2 planted bugs, half of the searches within 1 seeds, "
                      "1 by the seed of the table only\n", output)
        self.assertIn("no-margin\t4711\tI-3\n", table.read_text())
        # A seed that fails without the bug as well proves nothing.
        table.write_text(rows)
        status, output = self.mutants({"4711": "I-3", "c5-forgets:0": "I-22"}, "--table", table)
        self.assertEqual(status, 1, output)
        self.assertIn("not found: no-margin\n", output)

    def test_the_median_counts_starts_that_led_nowhere(self):
        status, output = self.mutants({"no-margin:3": "I-3", "no-margin:200008": "I-3",
                                       "c5-forgets:100000": "I-22"}, "--starts", "3")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"no-margin +9  I-3 \(seed 3\)")
        self.assertRegex(output, r"c5-forgets +>9  I-22 \(seed 100000\)")

    def test_a_bug_that_does_not_exist_is_refused(self):
        status, output = self.mutants({}, "--only", "no-margins")
        self.assertNotEqual(status, 0)
        self.assertIn("no bug is called no-margins", output)


if __name__ == "__main__":
    unittest.main()
