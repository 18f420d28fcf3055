#!/usr/bin/env python3
"""Tests of bench/harness: figures from a made-up /proc, order, void checks, intervals and the table by example."""

import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bench.harness import (measure, processes, programs, report, runner, scenarios, shard, statistics,  # noqa: E402
                           targets)


class Proc(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.proc = pathlib.Path(self.folder.name)
        (self.proc / "7").mkdir()
        self.addCleanup(self.folder.cleanup)

    def test_cpu_counts_user_and_system_also_of_a_name_with_brackets(self):
        fields = ["S"] + ["0"] * 10 + ["300", "100", "7", "3"] + ["0"] * 20
        (self.proc / "7" / "stat").write_text("7 (a) b (c)) " + " ".join(fields))
        self.assertAlmostEqual(measure.cpu_seconds(7, self.proc), 410 / measure.TICKS)

    def test_memory_is_pss_with_its_parts(self):
        (self.proc / "7" / "smaps_rollup").write_text(
            "00400000-7fff ---p 00000000 00:00 0 [rollup]\nRss: 900 kB\nPss: 500 kB\nPss_Dirty: 9 kB\n"
            "Pss_Anon: 300 kB\nPss_File: 200 kB\n")
        self.assertEqual(measure.memory(7, self.proc), {"pss": 500, "anonymous": 300, "file": 200})

    def look(self, stat, swap=0):
        (self.proc / "stat").write_text("cpu  " + " ".join(str(n) for n in stat) + " 0 0\ncpu0 1 2\n")
        (self.proc / "vmstat").write_text(f"nr_x 1\npswpin {swap}\npswpout 0\n")
        return measure.Machine(self.proc)

    def test_shares_tell_ours_from_foreign_and_stolen(self):
        before = self.look([0, 0, 0, 0, 0, 0, 0, 0])
        after = self.look([400, 0, 100, 450, 0, 0, 0, 50], swap=3)
        shares = after.since(before, ours=400 / measure.TICKS)
        self.assertAlmostEqual(shares["steal"], 0.05)
        self.assertAlmostEqual(shares["foreign"], 0.10)
        self.assertEqual(shares["swapped"], 3)

    def test_every_reason_makes_a_run_void(self):
        good = {"steal": 0.02, "foreign": 0.05, "swapped": 0, "generator_share": 0.9, "r_squared": 0.99}
        self.assertEqual(measure.void_reason(good), "")
        for name, value, word in (("steal", 0.03, "steal"), ("foreign", 0.06, "others"), ("swapped", 1, "swap"),
                                  ("generator_share", 0.91, "generator"), ("failed", "lost", "lost"),
                                  ("r_squared", 0.989, "no line")):
            self.assertIn(word, measure.void_reason({**good, name: value}))


class Statistics(unittest.TestCase):

    def test_the_interval_holds_the_ratio_and_repeats(self):
        ours, theirs = [1.0, 1.1, 0.9, 1.05, 0.95], [4.0, 4.4, 3.6, 4.2, 3.8]
        low, ratio, high = statistics.ratio_interval(ours, theirs, resamples=500)
        self.assertAlmostEqual(ratio, 0.25)
        self.assertLess(low, ratio)
        self.assertGreater(high, ratio)
        self.assertEqual((low, ratio, high), statistics.ratio_interval(ours, theirs, resamples=500))

    def test_equal_runs_have_no_width(self):
        self.assertEqual(statistics.ratio_interval([2.0] * 5, [4.0] * 5, resamples=100), (0.5, 0.5, 0.5))

    def test_nothing_is_said_without_runs(self):
        self.assertIsNone(statistics.ratio_interval([], [1.0]))
        self.assertIsNone(statistics.ratio_interval([1.0], []))
        self.assertIsNone(statistics.ratio_interval([1.0], [0.0]))

    def test_a_claim_needs_the_bad_end_a_regression_the_good_one(self):
        self.assertTrue(statistics.claim_holds((0.1, 0.2, 0.25), at_most=0.25))
        self.assertFalse(statistics.claim_holds((0.1, 0.2, 0.26), at_most=0.25))
        self.assertTrue(statistics.claim_holds((5.0, 6.0, 9.0), at_least=5))
        self.assertFalse(statistics.is_regression((1.05, 1.2, 1.4)))
        self.assertTrue(statistics.is_regression((1.11, 1.2, 1.4)))
        self.assertTrue(statistics.is_regression((0.5, 0.7, 0.89), lower_is_better=False))

    def test_slopes(self):
        rise, base, fit = statistics.slope([(0, 10), (5, 20), (10, 30)])
        self.assertAlmostEqual(rise, 2)
        self.assertAlmostEqual(base, 10)
        self.assertAlmostEqual(fit, 1)
        self.assertAlmostEqual(statistics.theil_sen([(0, 0), (1, 1), (2, 2), (3, 100), (4, 4)]), 1)


class Runner(unittest.TestCase):

    def test_the_order_is_abba_after_a_warm_up(self):
        self.assertEqual(runner.abba(["A", "B"], 3),
                         [(-1, "A"), (-1, "B"), (0, "A"), (0, "B"), (1, "B"), (1, "A"), (2, "A"), (2, "B")])

    def test_without_a_warm_up_the_first_run_counts(self):
        self.assertEqual(runner.abba(["A", "B"], 1, warm_up=False), [(0, "A"), (0, "B")])

    def test_every_run_is_a_line_and_a_failure_is_void(self):
        output = io.StringIO()

        def scenario(side, seed):
            if side == "b" and seed == 3:
                raise RuntimeError("it broke")
            return {"wall_s": 2.0 if side == "a" else 4.0}

        rows = runner.Runner("LT0", {"ours": "a", "go": "b"}, 2, output, {"n": 1}).run(scenario)
        lines = [json.loads(line) for line in output.getvalue().splitlines()]
        self.assertEqual(lines, rows)
        self.assertEqual(len(lines), 6)
        self.assertEqual([line["void"] for line in lines], ["", "", "", "", "it broke", ""])
        self.assertEqual(lines[0]["parameters"], {"n": 1})
        text = report.table(rows)
        self.assertIn("| LT0 | wall s | ours | 2 | 2 |  |", text)
        self.assertIn("| LT0 | wall s | go | 1 | 4 | 0.50 (0.50 to 0.50) |", text)
        self.assertIn("warm-ups 2, void 1; 1 x it broke.", text)


    def test_figures_come_with_machine_compiler_and_libraries(self):
        facts = runner.machine_facts()
        for name in ("kernel", "cpu", "compiler", "nghttp2", "OpenSSL", "protobuf", "SQLite"):
            self.assertTrue(facts[name], name)
        row = {"id": "LT0", "side": "ours", "warm_up": False, "void": "", "wall_s": 1.0, "machine": facts}
        self.assertIn(f", nghttp2 {facts['nghttp2']}, OpenSSL {facts['OpenSSL']}, ", report.table([row]))

    def test_the_bounds_of_the_machine_are_printed_with_every_report(self):
        row = {"id": "LT0", "side": "ours", "warm_up": False, "void": "", "wall_s": 1.0,
               "machine_probe": {"tls_handshakes_per_s": 1234, "descriptors": 20000}}
        self.assertIn("\nMachine at best: 1,234 mutual TLS 1.3 handshakes per s (both ends on one core), "
                      "20,000 descriptors.\n", report.table([row]))
        self.assertIn("machine_probe is not built", report.table([{**row, "machine_probe": {}}]))
        self.assertEqual(runner.machine_probe(pathlib.Path("/nowhere/machine_probe")), {})


class Targets(unittest.TestCase):

    @staticmethod
    def row(side, value, **more):
        return {"id": "LT2", "side": side, "warm_up": False, "void": "", "cpu_s_per_1000": value, **more}

    def test_a_ratio_is_to_the_better_opponent_and_its_bad_end_counts(self):
        target = targets.Target("LT2", "cpu_s_per_1000", "CPU", 0.25)
        rows = [self.row("ours", 1.0), self.row("go", 10.0), self.row("go-gogc50", 5.0)]
        self.assertEqual(targets.judge(rows, target), ("0.20 (0.20 to 0.20)", True))
        rows.append(self.row("ours", 2.0))
        self.assertFalse(targets.judge(rows, target)[1])

    def test_figures_of_our_own_need_no_opponent(self):
        target = targets.Target("LT2", "cpu_s_per_1000", "CPU", 1.5, ratio=False)
        self.assertEqual(targets.judge([self.row("ours", 1.0)], target), ("1", True))
        self.assertEqual(targets.judge([self.row("ours", 2.0)], target), ("2", False))

    def test_a_target_may_be_measured_by_the_scenario_of_another(self):
        target = next(one for one in targets.TARGETS if one.measure == "loaded_kib_per_agent")
        self.assertEqual((target.id, target.rows_of, target.at_most), ("LT1", "LT2", 0.4))
        rows = [self.row("ours", 1.0, loaded_kib_per_agent=30.0), self.row("go", 1.0, loaded_kib_per_agent=100.0)]
        self.assertEqual(targets.judge(rows, target), ("0.30 (0.30 to 0.30)", True))
        self.assertIn("| LT1 | memory per agent under load | 0.4 x Go | 0.30 (0.30 to 0.30) | yes "
                      "| no: 1 of 10 pairs (M2) |", targets.table(rows))

    def test_below_ten_pairs_nothing_may_be_claimed_though_it_is_told_whether_the_target_is_met(self):
        met = [self.row("ours", 1.0), self.row("go", 10.0)]
        missed = [self.row("ours", 9.0), self.row("go", 10.0)]
        begin = "| LT2 | CPU per report | 0.25 x Go | "
        for rows, end in ((met * 9, "0.10 (0.10 to 0.10) | yes | no: 9 of 10 pairs (M2) |"),
                          (met * 10, "0.10 (0.10 to 0.10) | yes | yes |"),
                          (met * 10 + [self.row("go-gogc50", 10.0)], "| yes | no: 1 of 10 pairs (M2) |"),
                          (missed * 10, "0.90 (0.90 to 0.90) | no | no |")):
            line = next(line for line in targets.table(rows).splitlines() if line.startswith(begin))
            self.assertTrue(line.endswith(end), line)
        void = [self.row("ours", 1.0, void="noise"), self.row("go", 10.0, void="noise")] * 10
        self.assertIn("| yes | no: void runs (M6) |", targets.table(void, keep_void=True))

    def test_where_one_run_has_many_kills_they_are_counted(self):
        def text(kills):
            row = {"id": "LT5", "side": "ours", "warm_up": False, "void": "", "p50_us": 9e6, "operations": kills}
            return targets.table([row])
        self.assertIn("| yes | no: 10 of 20 kills (M2) |", text(10))
        self.assertIn("| yes | yes |", text(20))

    def test_the_report_says_it_too(self):
        rows = [self.row("ours", 1.0), self.row("go", 4.0)] * 4
        self.assertIn("\nLT2: 4 of 10 pairs: nothing may be claimed (M2).", report.table(rows))
        self.assertIn("LT2: 0 of 10 pairs", report.table([*rows[:1], self.row("go", 4.0, void="noise")]))
        for enough in (rows * 3, rows[:1]):  # Of one side there is no ratio.
            self.assertNotIn("nothing may be claimed", report.table(enough))

    def test_limits_that_are_counts_are_judged(self):
        limits = {(one.id, one.measure): one.at_most for one in targets.TARGETS if not one.ratio}
        self.assertEqual(limits[("LT2", "cores_at_10000")], 0.6)
        self.assertEqual(limits[("LT12", "threads")], 1)
        threads = next(one for one in targets.TARGETS if one.measure == "threads")
        row = {"id": "LT12", "side": "ours", "warm_up": False, "void": "", "threads": 2}
        self.assertEqual(targets.judge([row], threads), ("2", False))

    def test_void_runs_and_missing_sides_say_nothing(self):
        text = targets.table([self.row("ours", 1.0, void="noise"), self.row("go", 9.0)])
        self.assertNotIn("LT2", text)

    def test_every_target_belongs_to_a_scenario(self):
        known = {scenario.id for scenario in scenarios.SCENARIOS.values()}
        self.assertLessEqual({target.id for target in targets.TARGETS}, known)
        self.assertLessEqual({target.rows_of for target in targets.TARGETS}, known)
        self.assertLessEqual({target.measure for target in targets.TARGETS}, set(report.MEASURES))

    def test_every_scenario_has_its_modes(self):
        for name, scenario in scenarios.SCENARIOS.items():
            self.assertEqual(set(scenario.options), {"full", "normal", "quick"}, name)
            shapes = [set(options) for options in scenario.options.values()]
            self.assertTrue(all(shape == shapes[0] for shape in shapes), name)


class Programs(unittest.TestCase):

    def test_percentiles(self):
        row = programs.percentiles([0.001 * n for n in range(1, 101)])
        self.assertEqual(row["operations"], 100)
        self.assertAlmostEqual(row["p50_us"], 50_500)
        self.assertAlmostEqual(row["p99_us"], 100_000)
        self.assertAlmostEqual(row["max_us"], 100_000)

    def test_new_entries_are_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            entries = shard.NewEntries(folder)
            self.assertIsNone(entries.wait(0.01))
            (pathlib.Path(folder) / "one").mkdir()
            self.assertIsNotNone(entries.wait(10))
            (pathlib.Path(folder) / "two").mkdir()
            entries.drain()
            self.assertIsNone(entries.wait(0.01))
            entries.close()


class Processes(unittest.TestCase):

    def test_a_program_is_compared_without_its_symbols_and_stays_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder) / "a.c", pathlib.Path(folder) / "a"
            source.write_text("int main(void) { return 7; }\n")
            subprocess.run(["cc", "-g", "-o", str(program), str(source)], check=True)
            before = program.read_bytes()
            copy = processes.stripped(program, pathlib.Path(folder) / "out")
            self.assertLess(copy.stat().st_size, len(before))
            self.assertEqual(program.read_bytes(), before)
            self.assertEqual(subprocess.run([str(copy)], check=False).returncode, 7)
            made = copy.stat().st_mtime_ns
            self.assertEqual(processes.stripped(program, pathlib.Path(folder) / "out").stat().st_mtime_ns, made)
            os.utime(program, ns=(made + 10**9, made + 10**9))
            self.assertGreater(processes.stripped(program, pathlib.Path(folder) / "out").stat().st_mtime_ns, made)

    def test_a_child_is_pinned_and_ends_with_its_block(self):
        with processes.Child(["/bin/cat"], {0}, pipe=True) as child:
            self.assertTrue(child.running())
            status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
            self.assertIn("Cpus_allowed_list:\t0\n", status)
            self.assertGreaterEqual(child.cpu(), 0)
        self.assertFalse(child.running())

    def test_one_that_dies_is_told_with_its_last_words(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            with processes.Child(["/bin/sh", "-c", "echo no luck >&2; exit 3"], {0}, log=log) as child:
                with self.assertRaisesRegex(RuntimeError, "no luck"):
                    child.wait_for_file(pathlib.Path(folder) / "never", limit=30)

    def test_metrics_are_summed_over_series(self):
        text = '# HELP x y\nx_total{a="1"} 2\nx_total{a="2"} 3\nx_totals 9\nx_total 1\n'
        self.assertEqual(processes.metric(text, "x_total"), 6)


if __name__ == "__main__":
    unittest.main()
