#!/usr/bin/env python3
"""Runs bench/run --quick for two scenarios on the release build: it starts, measures both sides and ends cleanly.

No figure is judged. Exit status 77, with the reason, where the programs are not built or Go is not there.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build/release/load-bin"
SCENARIOS = {"start": "LT11", "health": "LT2"}
SIDES = ("ours", "go")


def skip(reason):
    print(f"bench_quick_test: {reason}")
    sys.exit(77)


def check(holds, what, output):
    if not holds:
        sys.exit(f"bench_quick_test: {what}\n{output}")


def main():
    for name in ("machine_probe", "nstance_bench_server", "nstance_generator"):
        if not (PROGRAMS / name).exists():
            skip(f"{name} is not built: cmake --build --preset release --target bench_programs")
    built = subprocess.run([ROOT / "tools/go_program", "bench/baseline_go", "baseline-server"], capture_output=True,
                           text=True, check=False)
    if built.returncode == 77:
        skip(built.stderr.strip().splitlines()[-1])
    check(built.returncode == 0, "the Go side does not build", built.stderr)
    with tempfile.TemporaryDirectory() as folder:
        rows_file = pathlib.Path(folder) / "rows.jsonl"
        done = subprocess.run([sys.executable, ROOT / "bench/run", *SCENARIOS, "--quick", "--pairs", "1",
                               "--no-warm-up", "--sides", ",".join(SIDES), "--json", rows_file],
                              capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        check(done.returncode == 0, f"exit status {done.returncode}", output)
        rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    check({(row["id"], row["side"]) for row in rows} ==
          {(bench, side) for bench in SCENARIOS.values() for side in SIDES}, "not every side ran once", output)
    check(not [row for row in rows if row.get("failed")], "a run failed", output)
    check(all(row["machine_probe"]["tls_handshakes_per_s"] > 0 for row in rows), "no machine facts", output)
    check("nothing may be claimed" in done.stdout, "one pair looks like a claim", output)


if __name__ == "__main__":
    main()
