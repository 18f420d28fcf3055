#!/usr/bin/env python3
"""Tests of what tools/tidy remembers.

The script is copied into a miniature tree, with a fake clang-tidy in PATH that notes which files it
was given and complains about those that contain BAD. Each case changes one thing and requires exactly
the files that depend on it to be checked again.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "tidy"
FAKE_TIDY = """#!/bin/sh
if [ "$1" = --version ]; then cat {folder}/version; exit 0; fi
for last; do :; done
basename "$last" >> {folder}/checked
if grep -q BAD "$last"; then
  grep -n BAD "$last" | sed "s|:.*|:1: error: bad|; s|^|$last:|"
  exit 1
fi
"""


class Tidy(unittest.TestCase):

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name).resolve()
        self.root = self.folder / "tree"
        for path, text in {
                ".clang-tidy": "Checks: all\n",
                "test/.clang-tidy": "Checks: some\n",
                "src/base/deep.h": "",
                "src/base/a.h": '#include "base/deep.h"\n',
                "src/base/a.cc": '#include "base/a.h"\n',
                "src/base/b.cc": "#include <vector>\n",
                "test/base/a_test.cc": '#include "base/a.h"\n#include "test/support/s.h"\n',
                "test/support/s.h": "",
        }.items():
            self.write(path, text)
        self.command("")
        (self.root / "tools").mkdir()
        shutil.copy(SCRIPT, self.root / "tools/tidy")
        (self.folder / "version").write_text("19.1\n")
        fake = self.folder / "clang-tidy-19"
        fake.write_text(FAKE_TIDY.format(folder=self.folder))
        fake.chmod(0o755)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def command(self, flag, sim=()):
        """Writes the compile commands of all files: these in sim alone, with this flag for b.cc."""
        folders = {"dev": [], "sim": []}
        for path in self.root.rglob("*.cc"):
            with_flag = f"-DB {flag}" if path.name == "b.cc" else ""
            folders["sim" if path.name in sim else "dev"].append(
                {"file": str(path), "directory": str(self.root), "command": f"g++ {with_flag} -o x.o -c {path}"})
        for folder, entries in folders.items():
            self.write(f"build/{folder}/compile_commands.json", json.dumps(entries))

    def tidy(self, *arguments):
        """Returns (exit status, files that were checked, output)."""
        (self.folder / "checked").write_text("")
        done = subprocess.run(
            [sys.executable, self.root / "tools/tidy", *arguments], capture_output=True, text=True,
            env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}",
                 "XDG_CACHE_HOME": str(self.folder / "cache")})
        return (done.returncode, sorted((self.folder / "checked").read_text().split()),
                done.stdout + done.stderr)

    def test_what_is_clean_is_checked_once(self):
        self.assertEqual(self.tidy()[:2], (0, ["a.cc", "a_test.cc", "b.cc"]))
        self.assertEqual(self.tidy()[:2], (0, []))

    def test_a_change_checks_what_depends_on_it(self):
        self.tidy()
        everything = ["a.cc", "a_test.cc", "b.cc"]
        for path, again in [
            ("src/base/b.cc", ["b.cc"]),
            ("src/base/a.h", ["a.cc", "a_test.cc"]),
            ("src/base/deep.h", ["a.cc", "a_test.cc"]),
            ("test/support/s.h", ["a_test.cc"]),
            (".clang-tidy", everything),
            ("test/.clang-tidy", everything),
        ]:
            with self.subTest(path=path):
                self.write(path, (self.root / path).read_text() + "// changed\n")
                self.assertEqual(self.tidy()[:2], (0, again))
                self.assertEqual(self.tidy()[:2], (0, []))

    def test_another_command_or_another_clang_tidy_checks_again(self):
        self.tidy()
        self.command("-DX")
        self.assertEqual(self.tidy()[1], ["b.cc"])
        (self.folder / "version").write_text("19.2\n")
        self.assertEqual(len(self.tidy()[1]), 3)

    def test_a_finding_is_shown_until_it_is_gone(self):
        self.write("src/base/b.cc", "BAD")
        for _ in range(2):
            status, _, output = self.tidy()
            self.assertEqual(status, 1)
            self.assertIn("src/base/b.cc:1:1: error: bad\n", output)
        self.assertEqual(self.tidy()[1], ["b.cc"])
        self.write("src/base/b.cc", "")
        self.assertEqual(self.tidy()[:2], (0, ["b.cc"]))

    def test_files_without_a_name_in_common_are_checked_as_one_text(self):
        body = "namespace {\nint %s() { return 1; }\n}  // namespace\n"
        for name in ("one", "two", "three"):
            self.write(f"src/base/{name}.cc", body % name.capitalize())
        self.write("src/base/other.cc", body % "One")
        self.command("")
        self.assertEqual(self.tidy()[:2], (0, ["a_test.cc", "b.cc", "batch.cc", "other.cc"]))
        self.assertEqual(self.tidy()[:2], (0, []))
        # A finding is looked at in its own file, and the others are clean.
        self.write("src/base/one.cc", "\nBAD")
        self.write("src/base/two.cc", "\n")
        status, checked, output = self.tidy()
        self.assertEqual((status, checked), (1, ["batch.cc", "one.cc"]))
        self.assertIn("src/base/one.cc:2:1: error: bad\n", output)
        self.assertEqual(self.tidy()[1], ["one.cc"])

    def test_another_tree_with_the_same_content_is_known(self):
        self.tidy()
        self.root = self.root.rename(self.folder / "moved")
        self.command("")
        self.assertEqual(self.tidy()[:2], (0, []))

    def test_one_file_can_be_named(self):
        self.assertEqual(self.tidy(str(self.root / "src/base/a.cc"))[:2], (0, ["a.cc"]))

    def test_a_file_that_only_the_simulator_builds_is_checked_as_it_does(self):
        self.command("", sim=["b.cc"])
        self.assertEqual(self.tidy()[:2], (0, ["a.cc", "a_test.cc", "b.cc"]))
        self.write("src/base/b.cc", "BAD")
        status, checked, output = self.tidy()
        self.assertEqual((status, checked), (1, ["b.cc"]))
        self.assertIn("src/base/b.cc:1:1: error: bad\n", output)

    def test_a_file_that_nobody_builds_is_a_finding(self):
        self.write("src/base/forgotten.cc", "")
        status, checked, output = self.tidy()
        self.assertEqual((status, checked), (1, ["a.cc", "a_test.cc", "b.cc"]))
        self.assertIn("src/base/forgotten.cc: no build folder compiles it\n", output)

    def test_a_tree_that_is_not_configured_is_explained(self):
        (self.root / "build/dev/compile_commands.json").unlink()
        status, _, output = self.tidy()
        self.assertNotEqual(status, 0)
        self.assertIn("cmake --preset dev", output)


if __name__ == "__main__":
    unittest.main()
