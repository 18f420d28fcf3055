"""The sides of a comparison. A side is a server program with the flags of bench/baseline_go's baseline-server:

    PROGRAM -dir DIR -addresses-file F [-store URL] [-instances N] [-per-tenant N] [-tenants a,b] [-interval D]

It makes the records and tokens of a run itself (tokens.jsonl, operator-tokens.jsonl, ca.crt in DIR), tells its
addresses (registration, agent, operator, health) when it serves, and counts in /metrics. Our own side is
`nstance_bench_server`, the server with the simulated provider wired in; it is found in the release build.
"""

import pathlib
from dataclasses import dataclass, field

from bench.harness.processes import ROOT, SERVER_CORE, Child, go_program


@dataclass
class Side:
    name: str
    program: pathlib.Path
    environment: dict = field(default_factory=dict)

    def start(self, folder, flags, cores=frozenset({SERVER_CORE})):
        """A running server and its addresses."""
        folder.mkdir(parents=True, exist_ok=True)
        environment = {"GOMAXPROCS": str(len(cores)), **self.environment}
        child = Child([self.program, "-dir", folder, "-addresses-file", folder / "addresses.json", *flags],
                      cores, environment, folder / "server.log")
        try:
            return child, child.wait_for_file(folder / "addresses.json")
        except RuntimeError:
            child.end()
            raise


def tuned(side, quiet_kib):
    """Go with a heap limit of 1.2 x its quiet size (load.md 5)."""
    return Side(f"{side.name}-tuned", side.program,
                {"GOGC": "off", "GOMEMLIMIT": f"{int(quiet_kib * 1.2)}KiB"})


def find(build=ROOT / "build" / "release"):
    """All sides that can be run here, by name."""
    sides = {}
    ours = build / "load-bin" / "nstance_bench_server"
    if ours.exists():
        sides["ours"] = Side("ours", ours)
    sides["go"] = Side("go", go_program("bench/baseline_go", "baseline-server"))
    sides["go-gogc50"] = Side("go-gogc50", sides["go"].program, {"GOGC": "50"})
    return sides
