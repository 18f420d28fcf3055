#!/usr/bin/env python3
"""Tests of check_elf.

Compiles a small program with all the hardening flags, with none, and with all but one, and requires
exactly the finding that belongs to what was left out.
"""

import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "check_elf"
PROGRAM = """
#include <cstdio>
#include <cstring>
int main(int argc, char** argv) {
  char buffer[32];
  std::strcpy(buffer, argv[argc - 1]);
  std::puts(buffer);
  std::puts(__FILE__);
}
"""

# check -> (hardened, soft)
FLAGS = {
    "pie": (["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]),
    "relro": (["-Wl,-z,relro"], ["-Wl,-z,norelro"]),
    "bind-now": (["-Wl,-z,now"], ["-Wl,-z,lazy"]),
    "stack": (["-Wl,-z,noexecstack"], ["-Wl,-z,execstack"]),
    "stack-protector": (["-fstack-protector-strong"], ["-fno-stack-protector"]),
    "fortify": (["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"], ["-U_FORTIFY_SOURCE"]),
    "rpath": ([], ["-Wl,-rpath,/opt/lib"]),
    "build-path": (["-ffile-prefix-map={folder}=."], []),
}
if platform.machine() == "x86_64":
    FLAGS["cet"] = (["-fcf-protection=full"], ["-fcf-protection=none"])


@unittest.skipUnless(shutil.which("g++") and shutil.which("readelf"), "needs g++ and readelf")
class CheckElf(unittest.TestCase):

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = os.path.realpath(holder.name)
        pathlib.Path(self.folder, "x.cc").write_text(PROGRAM)

    def found(self, soft):
        """Compiles with the soft flags for these checks; returns the checks that were found."""
        flags = [flag.format(folder=self.folder)
                 for check, pair in FLAGS.items() for flag in pair[check in soft]]
        program = f"{self.folder}/program"
        subprocess.run(["g++", "-O2", "-w", *flags, f"{self.folder}/x.cc", "-o", program],
                       check=True)
        done = subprocess.run([sys.executable, SCRIPT, "--build-root", self.folder, program],
                              capture_output=True, text=True)
        checks = {line.rsplit("[", 1)[1].rstrip("]")
                  for line in done.stdout.splitlines() if line.endswith("]")}
        self.assertEqual(done.returncode, 1 if checks else 0, done.stderr)
        return checks

    def test_a_hardened_program_is_green(self):
        self.assertEqual(self.found(soft=()), set())

    def test_a_soft_program_fails_every_check(self):
        self.assertEqual(self.found(soft=FLAGS), set(FLAGS))

    def test_each_check_sees_its_own_property(self):
        for check in FLAGS:
            with self.subTest(check=check):
                self.assertEqual(self.found(soft=(check,)), {check})

    def test_what_is_no_elf_file_is_an_error(self):
        done = subprocess.run([sys.executable, SCRIPT, f"{self.folder}/x.cc"],
                              capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        done = subprocess.run([sys.executable, SCRIPT, f"{self.folder}/nothing"],
                              capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
