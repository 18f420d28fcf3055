"""The targets of load.md that `tools/bench` answers, and whether what was measured meets them (rule M7)."""

from dataclasses import dataclass

from bench.harness import report, statistics


@dataclass
class Target:
    id: str
    measure: str
    what: str
    at_most: float
    ratio: bool = True  # Of ours to the better of the Go sides; else our own median.
    measured_by: str = ""  # The id of the scenario's rows, where it is another's.
    kills: int = 0  # How many a claim needs, where one run has many of them; else it is pairs that count (M2).

    @property
    def rows_of(self):
        return self.measured_by or self.id


TARGETS = [
    Target("LT1", "pss_kib_per_agent", "memory per idle agent", 0.55),
    Target("LT1", "pss_kib_per_agent", "KiB per idle agent", 60, ratio=False),
    Target("LT1", "loaded_kib_per_agent", "memory per agent under load", 0.4, measured_by="LT2"),
    Target("LT2", "cpu_s_per_1000", "CPU per report", 0.25),
    Target("LT2", "p99_us", "us, p99 of reports", 50_000, ratio=False),
    Target("LT2", "cores_at_10000", "cores for 10,000 reports per s", 0.6, ratio=False),
    Target("LT3", "cpu_s_per_1000", "CPU per join", 0.8),
    Target("LT3", "p99_us", "us, p99 of joins", 500_000, ratio=False),
    Target("LT5", "p50_us", "us, leader killed to the next acting, p50", 10_000_000, ratio=False, kills=20),
    Target("LT5", "max_us", "us, leader killed to the next acting, max", 15_000_000, ratio=False, kills=20),
    Target("LT12", "quiet_pss_kib", "memory of the agent", 0.4),
    Target("LT12", "program_kib", "file of the agent", 0.7),
    Target("LT12", "quiet_pss_kib", "KiB, memory of the agent", 8 * 1024, ratio=False),
    Target("LT12", "anonymous_kib", "KiB, anonymous memory of the agent", 2 * 1024, ratio=False),
    Target("LT12", "program_kib", "KiB, file of the agent", 8 * 1024, ratio=False),
    Target("LT12", "threads", "threads of the agent", 1, ratio=False),
    Target("LT12", "cpu_percent", "% of a core, agent", 0.05, ratio=False),
    Target("replace", "p99_us", "us, death to the call of create, p99", 100_000, ratio=False, kills=200),
]


def _values(rows, target, side):
    return [row[target.measure] for row in rows
            if row["id"] == target.rows_of and row["side"] == side and row.get(target.measure) is not None]


def judge(rows, target, ours="ours"):
    """(what was measured as text, whether it meets the target), or None without runs of both sides."""
    mine = _values(rows, target, ours)
    if not mine:
        return None
    if not target.ratio:
        middle = statistics.median(mine)
        return f"{middle:,.4g}", middle <= target.at_most
    others = {row["side"] for row in rows if row["id"] == target.rows_of} - {ours}
    intervals = [interval for side in others
                 if (interval := statistics.ratio_interval(mine, _values(rows, target, side))) is not None]
    if not intervals:
        return None
    worst = max(intervals, key=lambda interval: interval[1])  # The better opponent counts.
    return "{1:.2f} ({0:.2f} to {2:.2f})".format(*worst), statistics.claim_holds(worst, at_most=target.at_most)


def claim(rows, target, met, ours="ours"):
    """"yes", or why nothing may be claimed, although the target may be met."""
    rows = [row for row in rows if row["id"] == target.rows_of and row.get(target.measure) is not None]
    if target.kills:
        has, needs, what = sum(row["operations"] for row in rows if row["side"] == ours), target.kills, "kills"
    else:
        counted = {row["side"] for row in rows} if target.ratio else {ours}
        has = min(len(_values(rows, target, side)) for side in counted)
        needs, what = report.CLAIM_PAIRS, "pairs"
    if any(row["void"] for row in rows):
        return "no: void runs (M6)"
    if has < needs:
        return f"no: {has} of {needs} {what} (M2)"
    return "yes" if met else "no"


def table(rows, keep_void=False):
    """Markdown: every target that has runs, whether it is met, and whether that may be claimed."""
    rows = report.usable(rows, keep_void)
    out = ["| Target | What | At most | Measured | Met | May be claimed |", "|---|---|---|---|---|---|"]
    for target in TARGETS:
        verdict = judge(rows, target)
        if verdict is not None:
            limit = f"{target.at_most:,g}" + (" x Go" if target.ratio else "")
            out.append(f"| {target.id} | {target.what} | {limit} | {verdict[0]} | {'yes' if verdict[1] else 'no'} "
                       f"| {claim(rows, target, verdict[1])} |")
    return "\n".join(out)
