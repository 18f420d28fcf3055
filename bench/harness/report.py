"""Turns JSON lines of runs into the table: medians per side and the ratio to a side with its interval."""

import collections
import json

from bench.harness import statistics

# What is shown of a row, and whether less is better.
MEASURES = {
    "cpu_s_per_1000": ("CPU s per 1,000", True),
    "operations_per_s": ("operations per s", False),
    "p50_us": ("p50 us", True),
    "p99_us": ("p99 us", True),
    "max_us": ("max us", True),
    "quiet_pss_kib": ("quiet PSS KiB", True),
    "peak_pss_kib": ("peak PSS KiB", True),
    "pss_kib_per_agent": ("PSS KiB per agent", True),
    "loaded_kib_per_agent": ("PSS KiB per agent under load", True),
    "cores_at_10000": ("cores at 10,000 per s", True),
    "wall_s": ("wall s", True),
    "puts_per_operation": ("PUT per operation", True),
    "anonymous_kib": ("anonymous PSS KiB", True),
    "program_kib": ("file KiB", True),
    "cpu_percent": ("CPU % of a core", True),
    "threads": ("threads", True),
}


def read(lines):
    return [json.loads(line) for line in lines if line.strip()]


def usable(rows, keep_void=False):
    return [row for row in rows if not row["warm_up"] and (keep_void or not row["void"]) and not row.get("failed")]


# What machine_probe tells, and how it is said.
PROBE = {
    "ed25519_signatures_per_s": "{:,} Ed25519 signatures per s",
    "ed25519_verifications_per_s": "{:,} verifications per s",
    "tls_handshakes_per_s": "{:,} mutual TLS 1.3 handshakes per s (both ends on one core)",
    "aes_gcm_bytes_per_s": "{:,} bytes of AES-256-GCM per s",
    "sqlite_rows_per_s": "{:,} rows per s into SQLite (WAL, batches of 500)",
    "descriptors": "{:,} descriptors",
    "ports_per_address": "{:,} ports per source address",
}


def probe_line(found):
    """The bounds of the machine in one line."""
    told = ", ".join(text.format(found[name]) for name, text in PROBE.items() if name in found)
    return f"Machine at best: {told or 'not known, machine_probe is not built'}."


# A ratio is claimed from so many pairs at least (rule M2).
CLAIM_PAIRS = 10


def too_few(rows, keep_void=False):
    """Ids whose ratios may not be claimed (M2), with the runs of their poorest side. One side alone has no ratio."""
    counts = collections.defaultdict(collections.Counter)
    for row in rows:
        if not row["warm_up"]:
            counts[row["id"]][row["side"]] += len(usable([row], keep_void))
    fewest = {bench_id: min(sides.values()) for bench_id, sides in counts.items() if len(sides) > 1}
    return {bench_id: count for bench_id, count in sorted(fewest.items()) if count < CLAIM_PAIRS}


def table(rows, ours="ours", keep_void=False):
    """Markdown. Ratios are ours / other: below 1 is good where less is better."""
    by_id = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in usable(rows, keep_void):
        by_id[row["id"]][row["side"]].append(row)
    out = ["| Benchmark | Measure | Side | Runs | Median | Ratio ours/side (95 %) |", "|---|---|---|---|---|---|"]
    for bench_id, sides in sorted(by_id.items()):
        for measure, (title, _) in MEASURES.items():
            for side, runs in sorted(sides.items(), key=lambda item: (item[0] != ours, item[0])):
                values = [run[measure] for run in runs if run.get(measure) is not None]
                if not values:
                    continue
                mine = [run[measure] for run in sides.get(ours, []) if run.get(measure) is not None]
                interval = statistics.ratio_interval(mine, values) if side != ours else None
                shown = "" if interval is None else "{1:.2f} ({0:.2f} to {2:.2f})".format(*interval)
                out.append(f"| {bench_id} | {title} | {side} | {len(values)} | {statistics.median(values):,.4g} "
                           f"| {shown} |")
    dropped = collections.Counter(row["void"] for row in rows if row["void"] and not row["warm_up"])
    out.append("")
    if rows:
        facts = rows[-1].get("machine", {})
        out.append("Machine: " + ", ".join(f"{name} {value}" for name, value in facts.items() if value) + ".")
        out.append(probe_line(rows[-1].get("machine_probe", {})))
    out.append(f"Runs: {len(rows)}, warm-ups {sum(row['warm_up'] for row in rows)}, void {sum(dropped.values())}"
               + "".join(f"; {count} x {reason[:120]}" for reason, count in dropped.most_common()) + ".")
    out += [f"{bench_id}: {count} of {CLAIM_PAIRS} pairs: nothing may be claimed (M2)."
            for bench_id, count in too_few(rows, keep_void).items()]
    return "\n".join(out)
