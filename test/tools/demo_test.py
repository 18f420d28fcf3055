#!/usr/bin/env python3
"""The demo's tour and the getting-started guide, with the real programs: every command, in order, as it is pasted.

usage: demo_test.py PROGRAMS     the folder with nstance-admin, nstance-server and nstance-agent

What is for another terminal is typed into one (tmux, 80 x 24), which is looked at while the rest goes on. A command
that has no expectation here fails the test, so that neither text grows beyond what is proved.
"""

import dataclasses
import os
import pathlib
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import typing
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = None
# Seconds. Deadlines, not claims: an instrumented build on a busy machine has to keep them, too.
LIMIT = 180
FRESH = 60
AGAIN = 20
INSTANCE = r"\b[a-z]{3}06[0-9a-z]{24}\b"


# --- What is expected -----------------------------------------------------------------------------


@dataclasses.dataclass
class Step:
    """A command, what it prints, and what the other terminal shows next. Its exit code is 0."""
    pattern: str
    check: typing.Callable
    shows: typing.Callable = None
    in_terminal: bool = False


def terminal(pattern, shows):
    """A command that is typed into the other terminal, which then shows that."""
    return Step(pattern, None, shows, in_terminal=True)


def lines_like(*patterns):
    """A check: for each pattern the output has a line that it is found in."""
    def check(test, output, _state):
        for pattern in patterns:
            test.assertRegex(output, re.compile(pattern, re.MULTILINE))
    return check


def ends_like(pattern):
    """A check: the last line is like that."""
    def check(test, output, _state):
        test.assertRegex(output.strip().rpartition("\n")[2], pattern)
    return check


def creations(number):
    """A check: a plan of that many creations and nothing else."""
    def check(test, output, _state):
        test.assertRegex(output, r"\APRIORITY +ACTION +INSTANCE +REASON")
        actions = re.findall(r"^ *\d+  (\S+)  .*\bscale-up\b", output, re.MULTILINE)
        test.assertEqual(actions, ["create"] * number, output)
    return check


def rows(number):
    """A check: that many instances, all of them well."""
    def check(test, output, state):
        found = re.findall(rf"^\S+ +({INSTANCE}) +web +registered +healthy ", output, re.MULTILINE)
        test.assertEqual(len(found), number, output)
        test.assertEqual(len(set(found)), number, output)
        state["instances"] = set(found)
    return check


def others(number):
    """A check: that many instances, one of which was not there before."""
    def check(test, output, state):
        before = state["instances"]
        rows(number)(test, output, state)
        test.assertEqual(len(state["instances"] - before), 1, "who was replaced?\n" + output)
        state["victim"], = before - state["instances"]
    return check


def status_of_the_same(number):
    """A check: a group of that size, with the same instances as before. How many of them the new leader has heard from
    already is another matter: the other terminal shows it."""
    def check(test, output, state):
        test.assertRegex(output, r"\Aweb in \S+-a\n")
        test.assertRegex(output, re.compile(rf"^  Size +{number}$", re.MULTILINE))
        members = set(re.findall(INSTANCE, output.partition("Members:\n")[2]))
        test.assertEqual(members, state["instances"], output)
    return check


def end_of_victim(test, output, state):
    """A check: the reason why the instance was replaced, in the first sentence; and its history."""
    test.assertRegex(output, r"\ADeleted \d+s ago because the provider .* \(provider-(stopped|gone)\)\.")
    test.assertRegex(output, re.compile(rf"^\S+ +\S+ +{state['victim']} +registered", re.MULTILINE))


def nothing(test, output, _state):
    test.assertEqual(output.strip(), "")


def screen(*texts, without="\0"):
    """What the other terminal shows: all of these texts."""
    def shown(lines):
        return all(text in lines for text in texts) and without not in lines
    return shown


def prompt(lines):
    """What the other terminal shows: the last command has ended well."""
    return lines.rstrip("\n").rpartition("\n")[2] == "[0]"


LIVE = screen("nstance  groups  tenant default  1 shard", "3/3", "q quit")
ONE_DOWN = screen("2/3", without="LOST")
LOST = screen(": LOST for ")
HEALED = screen("3/3", without="LOST")

TOUR = [
    Step(r"source /.*/env", nothing),
    Step(r"nstance-admin group list --wide", lines_like(r"^SHARD +GROUP +SIZE .* READY ",
                                                        r"^demo-a +web +3 +worker +yes +3 +0 +0 ")),
    Step(r"nstance-admin instance list", rows(3)),
    Step(r"nstance-admin why web", lines_like(r"\A3 of 3 instances are ready\. Nothing to do\.$")),
    Step(r"nstance-admin group scale web 5 --dry-run", creations(2)),
    Step(r"nstance-admin group scale web 5 --wait", ends_like(r"\b5/5 ready\b")),
    Step(r"nstance-admin group scale web 3 --wait", ends_like(r"\b3/3 ready\b")),
    Step(r"nstance-admin plan web", lines_like(r"\A(Nothing to do\.|Next look: \d\d:\d\d:\d\d)\n*\Z")),
    terminal(r"source /.*/env", prompt),
    terminal(r"nstance-admin watch", LIVE),
    Step(r"nstance-admin instance list", rows(3)),
    Step(r"victim=\$\(demo-pid --id instance\)", nothing),
    Step(r"kill -9 \$\(demo-pid instance\)", nothing, ONE_DOWN),
    Step(r"nstance-admin group scale web 3 --wait", ends_like(r"\b3/3 ready\b"), HEALED),
    Step(r"nstance-admin instance list --wide", others(3)),
    Step(r'nstance-admin why "\$victim"', end_of_victim),
    Step(r"kill -9 \$\(demo-pid leader\)", nothing, LOST),
    Step(r"nstance-admin group status web", status_of_the_same(3), HEALED),
    Step(r"make -C /.* demo", lines_like(r"^Nstance runs: .* a group of 3 instances,")),
    Step(r"make -C /.* demo-down", lines_like(r"^The demo is gone\.$"), LOST),
]

GUIDE = [
    Step(r"make build", nothing),
    Step(r"export PATH=.*", nothing),
    Step(r"mkdir getting-started", nothing),
    Step(r"cd getting-started", nothing),
    Step(r"nstance-admin cluster init .*", lines_like(r"^Cluster local, shard local-a:$",
                                                      r"^  created  key file /.*/bucket\.key$",
                                                      r"^  created  config/local-a\.jsonc$", r"^  created  ca\.crt$")),
    Step(r"nstance-server --id s1 .* &", nothing),
    Step(r"nstance-server --id s2 .* &", nothing),
    Step(r"nstance-admin cluster register-operator .*", lines_like(r"\bopr[0-9a-z]+")),
    Step(r"export NSTANCE_ADMIN_SERVERS=.*", nothing),
    Step(r"nstance-admin group scale web 3 --wait", ends_like(r"\b3/3 ready\b")),
    Step(r"nstance-admin group list --wide", lines_like(r"^local-a +web +3 +worker +yes +3 +0 +0 ")),
    Step(r"nstance-admin instance list", rows(3)),
    Step(r"nstance-admin why web", lines_like(r"\A3 of 3 instances are ready\. Nothing to do\.$")),
    Step(r"export -p \| grep .* > env", nothing),
    terminal(r"cd getting-started", prompt),
    terminal(r"source ./env", prompt),
    terminal(r"nstance-admin watch", LIVE),
    Step(r"victim=.*", nothing),
    Step(r"grep -l .* \| xargs kill -9", nothing, ONE_DOWN),
    Step(r"nstance-admin group scale web 3 --wait", ends_like(r"\b3/3 ready\b"), HEALED),
    Step(r"nstance-admin instance list", others(3)),
    Step(r'nstance-admin why "\$victim"', end_of_victim),
    Step(r"leader=\$\(nstance-admin store show .*\)", lines_like(r"\Aleader/local-a\.json: lease, .* checksum right$")),
    Step(r'kill -9 "%nstance-server --id \$leader"', nothing, LOST),
    Step(r"nstance-admin group status web", status_of_the_same(3), HEALED),
    Step(r"nstance-admin group scale web 5 --dry-run", creations(2)),
    Step(r"nstance-admin group scale web 5 --wait", ends_like(r"\b5/5 ready\b")),
    Step(r"nstance-admin group scale web 2 --wait", ends_like(r"\b2/2 ready\b")),
    Step(r"nstance-admin group scale web 0 --wait", ends_like(r"\b0/0 ready\b"), screen("0/0")),
    Step(r"kill \$\(jobs -p\)", nothing),
    Step(r"wait", nothing),
    Step(r"cd \.\.", nothing),
    Step(r"rm -rf getting-started", nothing),
]


# --- The two terminals ----------------------------------------------------------------------------


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def processes_below(folder):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            here = os.readlink(entry / "cwd") if entry.name.isdigit() else ""
        except OSError:
            continue
        if (here.removesuffix(" (deleted)") + "/").startswith(f"{folder}/"):
            found.append(int(entry.name))
    return found


def binds(listener, port):
    """False while somebody has it: a connection of another program may have it for a moment."""
    try:
        listener.bind(("127.0.0.1", port))
        return True
    except OSError:
        return False


def until(condition, limit=LIMIT):
    """Looks again and again until it is so; false when the time is up."""
    end_by = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end_by:
            return False
        time.sleep(0.05)
    return True


class Shell:
    """A bash that is given one command after the other."""

    def __init__(self, folder, environment):
        source, self.commands = os.pipe()
        self.bash = subprocess.Popen(["bash", "--norc", f"/dev/fd/{source}"], cwd=folder, env=environment,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     pass_fds=[source])
        os.close(source)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.bash.stdout, selectors.EVENT_READ)

    def run(self, command):
        """Its output and its exit code. Without bash's own news about jobs that have ended."""
        os.write(self.commands, f"{command}\nprintf '\\n@@end %d\\n' $?\n".encode())
        output, end_by = b"", time.monotonic() + LIMIT
        while not (found := re.search(rb"\n@@end (\d+)\n\Z", output)):
            if not self.selector.select(max(0, end_by - time.monotonic())):
                raise AssertionError(f"{command} does not end:\n{output.decode(errors='replace')}")
            some = os.read(self.bash.stdout.fileno(), 65536)
            if not some:
                raise AssertionError(f"{command} ended the shell:\n{output.decode(errors='replace')}")
            output += some
        text = output[:found.start()].decode(errors="replace")
        return re.sub(r"(?m)^\S+: line \d+: +\d+ (Killed|Terminated)\b.*\n?", "", text), int(found.group(1))

    def close(self):
        os.close(self.commands)
        self.selector.close()
        self.bash.stdout.close()
        self.bash.wait(LIMIT)


class Terminal:
    """Another bash, on a screen of 80 x 24, whose prompt is the exit code of the last command."""

    def __init__(self, folder, environment):
        self.socket = folder / "tmux.sock"
        (folder / "prompt.sh").write_text("PS1='[$?] '\n")
        subprocess.run([*self.words(), "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-c", folder,
                        "bash", "--rcfile", folder / "prompt.sh"], env=environment, check=True, timeout=LIMIT)
        self.processes = [int(word) for word in self.ask("#{pid} #{pane_pid}").split()]

    def words(self):
        return ["tmux", "-S", str(self.socket)]

    def tmux(self, *words):
        return subprocess.run([*self.words(), *words], check=True, capture_output=True, text=True,
                              timeout=LIMIT).stdout

    def ask(self, what):
        return self.tmux("display-message", "-p", what).strip()

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def type(self, text):
        self.tmux("send-keys", "-l", text)
        self.tmux("send-keys", "Enter")

    def close(self):
        subprocess.run([*self.words(), "kill-server"], check=False, capture_output=True, timeout=LIMIT)
        until(lambda: not any(is_alive(pid) for pid in self.processes))


class Pasted(unittest.TestCase):
    """Gives each command of a text to the terminal it is for, and what comes of it to its check."""

    def setUp(self):
        # The terminal's socket is below it, and has to have a short name.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="nd-", dir="/tmp")).resolve()
        self.addCleanup(self.clean)
        # Of a `make test` around this, or of somebody's other cluster.
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("NSTANCE_", "MAKE", "MFLAGS", "TMUX"))}

    def clean(self):
        for _ in range(50):
            left = [pid for pid in processes_below(self.folder) if pid != os.getpid()]
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not left:
                break
        shutil.rmtree(self.folder, ignore_errors=True)

    def paste(self, commands, steps, before=":"):
        """`commands`: each with whether it is for the other terminal; `before`: what the shell is told first."""
        self.assertEqual(len(commands), len(steps),
                         "each command has one expectation:\n" + "\n".join(command for command, _ in commands))
        for (command, in_terminal), step in zip(commands, steps):
            self.assertRegex(command, re.compile(rf"^(?:{step.pattern})$"))
            self.assertEqual(in_terminal, step.in_terminal, command)
        shell = Shell(self.folder, {**self.environment, "NO_COLOR": "1"})
        self.addCleanup(shell.close)
        other = Terminal(self.folder, self.environment)
        self.addCleanup(other.close)
        self.assertEqual(shell.run(before), ("", 0))
        state = {}
        for (command, _), step in zip(commands, steps):
            try:
                if step.in_terminal:
                    other.type(command)
                else:
                    output, code = shell.run(command)
                    self.assertEqual(code, 0, output + self.logs())
                    step.check(self, output, state)
                if step.shows:
                    self.assertTrue(until(lambda: step.shows(other.screen())), other.screen() + self.logs())
            except AssertionError as why:
                raise AssertionError(f"{command}\n{why}") from None
        self.assertEqual(other.ask("#{alternate_on} #{cursor_flag}"), "1 0")
        other.tmux("send-keys", "q")
        self.assertTrue(until(lambda: prompt(other.screen())), other.screen())
        self.assertEqual(other.ask("#{alternate_on} #{cursor_flag}"), "0 1")
        other.close()

    def logs(self):
        return "".join(f"\n--- {path}\n{path.read_text(errors='replace')[-1500:]}"
                       for path in sorted(self.folder.rglob("s?.log")))


# --- The demo -------------------------------------------------------------------------------------


def tour_of(text):
    """The commands of a printed tour, and whether each is for another terminal: what is above it says so."""
    commands, heading = [], ""
    for line in text.splitlines():
        if line.startswith("  "):
            commands.append((line.strip(), "in another terminal" in heading))
        elif line:
            heading = line
    return commands


class Demo(Pasted):

    def setUp(self):
        super().setUp()
        self.at = self.folder / "demo"
        self.environment.update({"NSTANCE_DEMO_DIR": str(self.at), "NSTANCE_DEMO_PROGRAMS": str(PROGRAMS)})

    def demo(self, *words, limit=LIMIT):
        return subprocess.run([ROOT / "tools" / "demo", *words], env=self.environment, capture_output=True, text=True,
                              timeout=limit, check=False, cwd=self.folder)

    def up(self, limit=LIMIT):
        done = self.demo("up", limit=limit)
        self.assertEqual(done.returncode, 0, done.stderr + self.logs())
        return done

    def down(self):
        done = self.demo("down")
        self.assertEqual((done.returncode, done.stdout), (0, "The demo is gone.\n"), done.stderr)
        self.assertFalse(self.at.exists())

    def test_every_command_of_the_tour_works_and_nothing_is_left(self):
        tour = self.up(FRESH).stdout
        self.assertIn("a group of 3 instances", tour)
        again = self.up(AGAIN).stdout
        self.assertEqual(again, tour + "It was running already.\n")
        # `build` is the one thing that is not done here: the programs are there.
        self.paste(tour_of(tour), TOUR, before='make() { command make -o build "$@"; }')
        self.assertFalse(self.at.exists())
        self.assertEqual(processes_below(self.at), [])
        self.assertEqual(self.demo("down").stdout, "There was no demo.\n")

    def test_a_half_started_demo_is_finished(self):
        began = subprocess.Popen([ROOT / "tools" / "demo", "up"], env=self.environment, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.assertTrue(until(self.servers))
        began.send_signal(signal.SIGINT)
        _, told = began.communicate(timeout=LIMIT)
        self.assertEqual((began.returncode, told.count("\n")), (130, 1), told)
        self.up()
        self.assert_well()
        self.down()

    def test_a_broken_demo_is_mended(self):
        self.up()
        with self.subTest("everything was killed, and files are gone"):
            self.kill_all()
            for path in (self.at / "env", self.at / "identity" / "identity.crt"):
                path.unlink()
            self.assert_mended()
        with self.subTest("one server runs: it is kept, and the other one is started"):
            kept, killed = sorted(self.servers())
            os.kill(killed, signal.SIGKILL)
            self.assertTrue(until(lambda: killed not in self.servers()))
            self.assert_mended()
            self.assertIn(kept, self.servers())
        with self.subTest("the group has size 0"):
            self.admin("group", "scale", "web", "0", "--wait")
            self.assert_mended()
        with self.subTest("the configuration does not read: all is made anew"):
            self.kill_all()
            (self.at / "bucket" / "config" / "demo-a.jsonc").write_text("{")
            self.assertIn("made anew", self.assert_mended().stderr)
        with self.subTest("the folder was removed by hand, and the processes were not"):
            before = self.servers()
            shutil.rmtree(self.at)
            self.assert_mended()
            self.assertEqual(self.servers() & before, set())
        self.down()
        self.assertEqual(processes_below(self.at), [])

    def test_a_port_that_is_somebody_elses_by_now_is_given_up_at_once(self):
        self.up()
        before = self.ports()
        self.kill_all()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # Closed connections linger there.
            self.assertTrue(until(lambda: binds(other, before["operator"])), "nobody lets go of the port")
            other.listen()
            done = self.assert_mended(FRESH)
        self.assertIn(f"port {before['operator']} is another program's by now", done.stderr)
        self.assertNotIn(before["operator"], self.ports().values())
        self.down()

    def test_two_that_start_it_at_the_same_time_start_one(self):
        both = [subprocess.Popen([ROOT / "tools" / "demo", "up"], env=self.environment, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, cwd=self.folder) for _ in range(2)]
        outputs = sorted((one.communicate(timeout=LIMIT)[0] for one in both), key=len)
        self.assertEqual([one.returncode for one in both], [0, 0], outputs)
        self.assertEqual(outputs[1], outputs[0] + "It was running already.\n")
        self.assertEqual(len(self.servers()), 2)
        self.down()

    def test_what_is_not_of_the_demo_survives_its_end(self):
        self.up()
        work = next((self.at / "bucket.instances" / "demo-a").glob("*/work"))
        guests = [subprocess.Popen(["sleep", "600"], cwd=folder) for folder in (self.at, work)]
        self.assertNotIn(self.demo("pid", "instance").stdout.strip(), [str(guest.pid) for guest in guests])
        self.down()
        self.assertEqual([guest.poll() for guest in guests], [None, None])
        self.assertEqual(sorted(processes_below(self.at)), sorted(guest.pid for guest in guests))
        for guest in guests:
            guest.kill()
            guest.wait()

    def test_wrong_use_is_told(self):
        self.assertEqual(self.demo().returncode, 2)
        self.assertEqual(self.demo("pid").returncode, 2)
        self.assertEqual(self.demo("pid", "nobody").returncode, 2)
        for what, why in (("leader", "nobody leads"), ("instance", "no instance runs")):
            gone = self.demo("pid", what)
            self.assertEqual(gone.returncode, 1)
            self.assertIn(why, gone.stderr)

    def test_make_builds_before_it_starts_the_demo(self):
        def would_run(goal):
            done = subprocess.run(["make", "-n", goal], cwd=ROOT, env=self.environment, capture_output=True, text=True,
                                  check=True, timeout=LIMIT)
            return done.stdout.splitlines()
        demo = would_run("demo")
        self.assertEqual(demo[-1], "tools/demo up")
        self.assertRegex(demo[-2], r"^cmake --build --preset release .*--target programs$")
        self.assertEqual(would_run("demo-down"), ["tools/demo down"])
        self.assertEqual(would_run("build"), demo[:-1])

    # --- What there is ---

    def admin(self, *words):
        done = subprocess.run(["bash", "-c", 'source demo/env; nstance-admin "$@"', "admin", *words], cwd=self.folder,
                              capture_output=True, text=True, check=False, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr + self.logs())
        return done.stdout

    def servers(self):
        """Process ids."""
        found = set()
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue
            if words[0:1] == [os.fsencode(PROGRAMS / "nstance-server")] and os.fsencode(self.at / "bucket") in words:
                found.add(int(entry.name))
        return found

    def ports(self):
        text = (self.at / "bucket" / "config" / "demo-a.jsonc").read_text()
        return {name: int(port) for name, port in re.findall(r'"(\w+)_addr": "127\.0\.0\.1:([1-9]\d*)"', text)}

    def kill_all(self):
        for pid in processes_below(self.at):
            os.kill(pid, signal.SIGKILL)
        self.assertTrue(until(lambda: not any(is_alive(pid) for pid in processes_below(self.at))))

    def assert_mended(self, limit=LIMIT):
        done = self.up(limit)
        self.assertNotIn("running already", done.stdout)
        self.assert_well()
        return done

    def assert_well(self):
        self.assertEqual(len(self.servers()), 2)
        rows(3)(self, self.admin("instance", "list"), {})


class Guide(Pasted):

    def test_every_command_of_the_guide_works(self):
        text = (ROOT / "docs" / "getting-started.md").read_text()
        blocks = re.findall(r"^```sh( another terminal)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        commands = [(line, bool(other)) for other, block in blocks for line in block.splitlines()]
        # Built already: `make build` has nothing to do here.
        (self.folder / "Makefile").write_text(".PHONY: build\nbuild:\n\t@true\n")
        (self.folder / "build").mkdir()
        (self.folder / "build" / "bin").symlink_to(PROGRAMS)
        self.paste(commands, GUIDE)
        self.assertFalse((self.folder / "getting-started").exists())
        left = set(processes_below(self.folder / "getting-started"))
        self.assertEqual(left, set())


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
