"""docs/troubleshooting.md quotes only what the programs really print, and names every hold; and
docs/operations.md tells what every alarm means.

What stands in double quotes in the first column of a table must be part of a string literal in
src/; adjacent literals are one. Every hold that this version can decide on must be on the page, and
one that is there all the same stands in the row that says so.
"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Where holds are spelled, described and remedied, but not decided on.
WORDS_OF_HOLDS = {"words.cc", "words.h", "explain.cc", "plan.cc", "plan.h"}


def literals_of(text):
    """The string literals of a C++ source, adjacent ones joined."""
    joined = re.sub(r'"\s*\n\s*"', "", text)
    return [m.group(1).replace('\\"', '"') for m in LITERAL.finditer(joined)]


def first_cells(text):
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            yield line.split("|")[1]


def holds():
    """Every hold of the contract."""
    source = (ROOT / "src/core/fleet/words.cc").read_text(encoding="utf-8")
    return set(re.findall(r'"([a-z-]+)"', re.search(r"kHoldWords = \{(.*?)\};", source, re.S).group(1)))


def decided_holds():
    """Those that some code of the planner or the server names."""
    folders = (ROOT / "src/core/fleet", ROOT / "src/server")
    sources = [path for folder in folders for path in folder.rglob("*.cc") if path.name not in WORDS_OF_HOLDS]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    named = set(re.findall(r"\bk[A-Z]\w*", text))
    return {hold for hold in holds() if "k" + "".join(part.capitalize() for part in hold.split("-")) in named}


def quotes_of(text):
    return [quote for cell in first_cells(text) for quote in re.findall(r'"([^"]+)"', cell)]


class QuotedMessagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = PAGE.read_text(encoding="utf-8")
        cls.literals = []
        for path in sorted((ROOT / "src").rglob("*.cc")):
            if "src/sim" not in path.as_posix():
                cls.literals += literals_of(path.read_text(encoding="utf-8"))

    def test_every_quote_is_printed_by_a_program(self):
        quotes = quotes_of(self.page)
        self.assertGreater(len(quotes), 20, "the page has lost its quotes")
        for quote in quotes:
            with self.subTest(quote=quote):
                self.assertTrue(any(quote in literal for literal in self.literals), quote)

    def test_every_hold_is_there(self):
        self.assertEqual(len(holds()), 31)
        self.assertEqual(decided_holds() - self.named(self.page), set())

    def test_holds_that_nobody_decides_on_are_told_apart(self):
        row = next(line for line in self.page.splitlines() if "this version never decides on" in line)
        self.assertEqual(self.named(row), self.named(self.page) & (holds() - decided_holds()))

    @staticmethod
    def named(text):
        return set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", text))

    def test_a_wrong_quote_is_found(self):
        self.assertEqual(quotes_of('| "no such text anywhere" | x |\n'), ["no such text anywhere"])
        self.assertEqual(literals_of('f("a "\n  "b", "c\\"d");'), ["a b", 'c"d'])
        self.assertFalse(any("no such text anywhere" in one for one in self.literals))


def alarms_of(text):
    """The alarms that a C++ source raises: always by a literal."""
    raised = re.findall(r'\balarm\(\s*\{\.name = "([a-z_]+)"', text)
    raised += re.findall(r'\bRaise\(\s*\{\.name = "([a-z_]+)"', text)
    return raised + re.findall(r'\bAlarm\("([a-z_]+)"', text)


class AlarmsTest(unittest.TestCase):
    """Every alarm has a row on docs/operations.md, and every row is an alarm."""

    def setUp(self):
        page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
        table = page.split("| Alarm | What it means | What to do |", 1)[1].split("\n\n", 1)[0]
        self.rows = [name for cell in first_cells(table) for name in re.findall(r"`(\w+)`", cell)]

    def test_every_alarm_is_explained(self):
        raised = set()
        for path in sorted((ROOT / "src").rglob("*.cc")):
            raised.update(alarms_of(path.read_text(encoding="utf-8")))
        self.assertGreater(len(raised), 8)
        self.assertEqual(set(self.rows), raised)
        self.assertEqual(len(self.rows), len(raised), "a row stands there twice")

    def test_no_alarm_is_raised_by_another_way(self):
        # A name that is not a literal could be on no page.
        for path in sorted((ROOT / "src/server").rglob("*.cc")):
            text = path.read_text(encoding="utf-8")
            calls = re.findall(r"\bcontext_\.alarm\(|(?<!->)(?<!::)\bRaise\(", text)
            with self.subTest(path=path.name):
                named = re.findall(r'(?:\balarm|\bRaise)\(\s*\{\.name = "', text)
                self.assertEqual(len(calls), len(named))

    def test_the_calls_are_found(self):
        self.assertEqual(alarms_of('context_.alarm({.name = "a_b", .x = 1});'), ["a_b"])
        self.assertEqual(alarms_of('Raise({.name = "c"}); Alarm("d", x);'), ["c", "d"])


class UnitFileTest(unittest.TestCase):
    """The unit of docs/operations.md is one that systemd takes, with flags that there are."""

    def setUp(self):
        page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
        self.unit = re.search(r"```ini\n(.*?)```", page, re.S).group(1)

    def test_its_flags_are_those_of_the_server(self):
        source = (ROOT / "src/server/process/command_line.cc").read_text(encoding="utf-8")
        command = re.search(r"^ExecStart=(.*)$", self.unit, re.M).group(1)
        for flag in re.findall(r"--[a-z-]+", command):
            with self.subTest(flag=flag):
                self.assertIn(f"\n  {flag} ", source)

    def test_systemd_takes_it(self):
        try:
            subprocess.run(["systemd-analyze", "--version"], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return  # No systemd here: nothing to ask.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "nstance-server.service"
            path.write_text(self.unit.replace("/usr/local/bin/nstance-server", sys.executable))
            told = subprocess.run(
                ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
            )
        self.assertEqual((told.returncode, told.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
