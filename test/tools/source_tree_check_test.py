#!/usr/bin/env python3
"""Tests of tools/source_tree_check.

Each case plants one mistake in a miniature tree that is clean otherwise, and requires the violation
at its line. A last group shows that what only looks like a mistake stays green.
"""

import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "source_tree_check"
_loader = importlib.machinery.SourceFileLoader("source_tree_check", str(SCRIPT))
_spec = importlib.util.spec_from_loader("source_tree_check", _loader)
source_tree_check = importlib.util.module_from_spec(_spec)
_loader.exec_module(source_tree_check)


def module(name, sources="", deps=""):
    return f"nstance_module({name}\n  SOURCES {sources}\n  DEPS {deps})  # comment\n"


# A clean tree with one module per layer. Every module has x.h and x.cc.
DEPS = {
    "base": "",
    "crypto": "base",
    "core": "crypto",
    "ports": "core",
    "server": "ports",
    "agent": "ports",
    "adapters/http": "ports",
    "adapters/s3_store": "adapters/http",
    "sim": "server agent",
}
CLEAN = {
    "src/bin/CMakeLists.txt": "add_executable(server server_main.cc)\n",
    "src/bin/README.md": "Programs.\n",
    "src/bin/server_main.cc": '#include "adapters/http/x.h"\n#include "server/x.h"\n',
    "test/CMakeLists.txt": "nstance_test(x_test SOURCES core/x_test.cc)\n",
    "test/core/x_test.cc": '#include "core/x.h"\n#include "sim/x.h"\n',
}
for _name, _deps in DEPS.items():
    CLEAN[f"src/{_name}/CMakeLists.txt"] = module(_name, "x.cc", _deps)
    CLEAN[f"src/{_name}/README.md"] = "Purpose.\n"
    CLEAN[f"src/{_name}/x.h"] = "#pragma once\n"
    CLEAN[f"src/{_name}/x.cc"] = f'#include "{_name}/x.h"\n'


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


def setUpModule():
    """Writes the clean tree once; each case changes some files and puts them back."""
    global _folder, ROOT
    _folder = tempfile.TemporaryDirectory()
    ROOT = pathlib.Path(_folder.name)
    for path, text in CLEAN.items():
        write(ROOT, path, text)


def tearDownModule():
    _folder.cleanup()


def violations(changes):
    """Rules found in the clean tree with some files changed (None removes), as (path, line, rule)."""
    for path, text in changes.items():
        if text is None:
            (ROOT / path).unlink()
        else:
            write(ROOT, path, text)
    try:
        return [(path, line, rule) for path, line, rule, _ in source_tree_check.Check(ROOT).run()]
    finally:
        for path in changes:
            if path in CLEAN:
                write(ROOT, path, CLEAN[path])
            else:
                (ROOT / path).unlink()


class CleanTree(unittest.TestCase):

    def test_a_clean_tree_is_green(self):
        self.assertEqual(violations({}), [])

    def test_the_program_prints_place_replacement_and_rule_and_exits_1(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src/base").mkdir(parents=True)
            for name in ("CMakeLists.txt", "README.md"):
                (root / "src/base" / name).write_text(CLEAN[f"src/base/{name}"])
            (root / "src/base/x.cc").write_text("void F() {}\n")
            command = [sys.executable, SCRIPT, "--root", folder]
            green = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual((green.returncode, green.stdout),
                             (0, "source_tree_check: 1 files, 0 violations\n"))
            (root / "src/base/x.cc").write_text("\nauto a = getenv(name);\n")
            red = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(red.returncode, 1)
            self.assertIn("src/base/x.cc:2: getenv is banned here; use a flag, parsed in src/bin/ "
                          "instead [getenv]\n", red.stdout)


class Layers(unittest.TestCase):

    def test_an_include_against_the_arrows_is_found(self):
        for source, target in [
            ("base", "crypto"), ("base", "core"), ("crypto", "core"), ("core", "ports"),
            ("ports", "server"), ("core", "server"), ("server", "agent"), ("agent", "server"),
            ("server", "adapters/http"), ("core", "adapters/http"), ("server", "sim"),
            ("adapters/http", "server"), ("adapters/http", "sim"), ("sim", "adapters/http"),
            ("server", "bin"), ("sim", "admin"), ("base", "bin"),
        ]:
            with self.subTest(source=source, target=target):
                path = f"src/{source}/x.cc"
                self.assertEqual(violations({path: f'\n#include "{target}/x.h"\n'}),
                                 [(path, 2, "layer")])

    def test_an_arrow_cannot_be_exempted(self):
        path = "src/core/x.cc"
        found = violations({path: '#include "ports/x.h"  // allow(layer): please.\n'})
        self.assertEqual(found, [(path, 1, "allow"), (path, 1, "layer")])

    def test_a_dependency_against_the_arrows_is_found(self):
        path = "src/core/CMakeLists.txt"
        self.assertEqual(violations({path: "\n" + module("core", "x.cc", "crypto ports")}),
                         [(path, 2, "layer")])

    def test_roles_do_not_depend_on_each_other(self):
        path = "src/server/CMakeLists.txt"
        self.assertEqual(violations({path: module("server", "x.cc", "ports agent")}),
                         [(path, 1, "layer")])

    def test_an_undeclared_dependency_is_found(self):
        changes = {"src/server/CMakeLists.txt": module("server", "x.cc", "base"),
                   "src/server/x.cc": '#include "base/x.h"\n#include "ports/x.h"\n'}
        self.assertEqual(violations(changes), [("src/server/x.cc", 2, "dependency")])

    def test_an_undeclared_adapter_is_found_and_a_declared_one_is_not(self):
        path = "src/adapters/http/x.cc"
        self.assertEqual(violations({path: '#include "adapters/s3_store/x.h"\n'}),
                         [(path, 1, "dependency")])
        self.assertEqual(violations({"src/adapters/s3_store/x.cc": '#include "adapters/http/x.h"\n'}),
                         [])

    def test_declared_dependencies_count_through_others(self):
        self.assertEqual(violations({"src/sim/x.cc": '#include "base/x.h"\n'}), [])

    def test_a_dependency_on_nothing_is_found(self):
        path = "src/server/CMakeLists.txt"
        self.assertEqual(violations({path: module("server", "x.cc", "ports adapters/htp")}),
                         [(path, 1, "dependency"), (path, 1, "layer")])

    def test_includes_are_rooted_at_src(self):
        path = "src/core/x.cc"
        for include in ("x.h", "../base/x.h", "what/x.h"):
            with self.subTest(include=include):
                self.assertEqual(violations({path: f'#include "{include}"\n'}),
                                 [(path, 1, "include-root")])

    def test_a_folder_of_no_layer_is_found(self):
        self.assertEqual(violations({"src/util/x.h": "#pragma once\n", "src/util/README.md": ""}),
                         [("src/util", 1, "layer")])

    def test_a_nested_module_stands_for_itself(self):
        world = {"src/sim/world/CMakeLists.txt":
                 module("sim/world", "../checkers/y.cc x.cc", "sim"),
                 "src/sim/world/README.md": "", "src/sim/checkers/README.md": "",
                 "src/sim/world/x.cc": '#include "sim/x.h"\n#include "sim/checkers/y.h"\n',
                 "src/sim/checkers/y.h": "#pragma once\n", "src/sim/checkers/y.cc": ""}
        self.assertEqual(violations(world), [])
        self.assertEqual(violations(world | {"src/sim/checkers/z.cc": ""}),
                         [("src/sim/checkers/z.cc", 1, "source-list")])
        self.assertEqual(violations(world | {"src/sim/x.cc": '#include "sim/checkers/y.h"\n'}),
                         [("src/sim/x.cc", 1, "layer")])

    def test_a_module_is_declared_under_the_name_of_its_folder(self):
        self.assertEqual(violations({"src/agent/CMakeLists.txt": module("agnt", "x.cc", "ports")}),
                         [("src/agent/CMakeLists.txt", 1, "module")])
        self.assertEqual(violations({"src/agent/CMakeLists.txt": "", "src/sim/CMakeLists.txt":
                                     module("sim", "x.cc", "server")}),
                         [("src/agent/CMakeLists.txt", 1, "module")])


class SourceLists(unittest.TestCase):

    def test_an_unlisted_source_is_found(self):
        for path in ("src/core/new.cc", "src/core/deep/new.cc", "src/bin/new.cc",
                     "test/core/new_test.cc", "bench/new_bench.cc"):
            with self.subTest(path=path):
                changes = {path: "", "src/core/deep/README.md": ""}
                self.assertEqual(violations(changes), [(path, 1, "source-list")])

    def test_a_listed_source_must_exist(self):
        self.assertEqual(violations({"src/core/x.cc": None}),
                         [("src/core/CMakeLists.txt", 1, "source-list")])

    def test_a_source_in_a_comment_is_not_listed(self):
        path = "src/core/CMakeLists.txt"
        text = "nstance_module(core SOURCES  # x.cc\n DEPS crypto)\n"
        self.assertEqual(violations({path: text}), [("src/core/x.cc", 1, "source-list")])


class BannedCalls(unittest.TestCase):

    # rule, code
    BANNED = [
        ("clock", "auto t = std::chrono::steady_clock::now();"),
        ("clock", "auto t = system_clock :: now();"),
        ("clock", "auto t = time(nullptr);"),
        ("clock", "auto t = std::time(0);"),
        ("clock", "gettimeofday(&tv, nullptr);"),
        ("clock", "clock_gettime(CLOCK_REALTIME, &ts);"),
        ("sleep", "std::this_thread::sleep_for(x);"),
        ("sleep", "std::this_thread::sleep_until(x);"),
        ("sleep", "usleep(5);"),
        ("sleep", "nanosleep(&ts, nullptr);"),
        ("sleep", "sleep(1);"),
        ("sleep", "::sleep(1);"),
        ("thread", "std::thread t(f);"),
        ("thread", "std::jthread t(f);"),
        ("thread", "#include <thread>"),
        ("mutex", "std::mutex m;"),
        ("mutex", "std::shared_mutex m;"),
        ("mutex", "std::condition_variable c;"),
        ("mutex", "#include <mutex>"),
        ("random", "std::random_device d;"),
        ("random", "std::mt19937_64 g;"),
        ("random", "std::uniform_int_distribution<int> d;"),
        ("random", "#include <random>"),
        ("random", "int a = rand();"),
        ("random", "srand(1);"),
        ("getenv", "auto* home = std::getenv(name);"),
        ("regex", "std::regex r(text);"),
        ("regex", "#include <regex>"),
        ("throw", "throw 1;"),
        ("assert", "assert(x);"),
        ("assert", "#include <cassert>"),
        ("print", "printf(text);"),
        ("print", "std::fprintf(stderr, text);"),
        ("print", "std::cout << 1;"),
        ("print", "std::cerr << 1;"),
        ("pointer-order", "std::set<Group*> s;"),
        ("pointer-order", "std::map<const Group*, int> m;"),
        ("pointer-order", "std::set<std::shared_ptr<Group>> s;"),
        ("unordered-iteration",
         "std::unordered_map<int, std::vector<int>> m; void F() { for (auto& [k, v] : m) {} }"),
        ("unordered-iteration",
         "std::unordered_set<int> s_; void F() { for (int k : this->s_) {} }"),
        ("unordered-iteration",
         "std::unordered_set<int> s; void F() { for (auto i = s.begin(); i != s.end(); ++i) {} }"),
        ("unordered-iteration",
         "using Ids = std::unordered_set<int>; void F(const Ids& s) { for (int k : s) {} }"),
    ]

    def test_each_banned_call_is_found(self):
        path = "src/ports/x.cc"
        for rule, code in self.BANNED:
            with self.subTest(code=code):
                self.assertEqual(violations({path: f"\n\n{code}\n"}), [(path, 3, rule)])

    def test_adapters_may_do_what_is_banned_elsewhere(self):
        for rule, code in self.BANNED:
            with self.subTest(code=code):
                found = violations({"src/adapters/http/x.cc": code + "\n"})
                expected = [("src/adapters/http/x.cc", 1, "assert")] if rule == "assert" else []
                self.assertEqual(found, expected)

    def test_tests_may_not_sleep_anywhere_nor_use_threads_in_unit_tests(self):
        listed = {"test/CMakeLists.txt": "core/x_test.cc e2e/y_test.cc"}
        for path, code, expected in [
            ("test/core/x_test.cc", "usleep(5);", ["sleep"]),
            ("test/e2e/y_test.cc", "usleep(5);", ["sleep"]),
            ("test/core/x_test.cc", "std::thread t;", ["thread"]),
            ("test/e2e/y_test.cc", "std::thread t;", []),
            ("test/core/x_test.cc", "std::mutex m;", ["mutex"]),
            ("test/e2e/y_test.cc", "std::mutex m;", []),
            ("test/core/x_test.cc", "auto t = steady_clock::now();", ["clock"]),
            ("test/e2e/y_test.cc", "auto t = steady_clock::now();", []),
            ("test/core/x_test.cc", "auto* p = getenv(n); printf(p); throw 1;", []),
        ]:
            with self.subTest(path=path, code=code):
                found = violations({**listed, path: code + "\n"})
                self.assertEqual(found, [(path, 1, rule) for rule in expected])

    def test_programs_may_print(self):
        path = "src/bin/server_main.cc"
        self.assertEqual(violations({path: "printf(usage);\n"}), [])

    def test_floating_point_is_banned_in_decisions_only(self):
        for code in ("float f;", "double d;"):
            for name in ("core", "server"):
                path = f"src/{name}/x.cc"
                self.assertEqual(violations({path: code + "\n"}), [(path, 1, "float")])
            self.assertEqual(violations({"src/base/x.cc": code + "\n"}), [])

    def test_a_loop_over_a_container_declared_in_the_own_header_is_found(self):
        changes = {"src/core/x.h": "#pragma once\nclass T {\n std::unordered_map<int, int> rows_;\n};\n",
                   "src/core/x.cc": '#include "core/x.h"\nvoid F() { for (auto& r : rows_) {} }\n'}
        self.assertEqual(violations(changes), [("src/core/x.cc", 2, "unordered-iteration")])

    def test_core_is_pure(self):
        path = "src/core/x.cc"
        for code in ("#include <fstream>", "#include <iostream>", "#include <sys/socket.h>",
                     "#include <netinet/in.h>", "#include <unistd.h>", "#include <future>",
                     '#include "base/log.h"', '#include "nstance/v1/server.pb.h"',
                     "#include <google/protobuf/message.h>", "using C = std::chrono::steady_clock;"):
            with self.subTest(code=code):
                self.assertEqual(violations({path: code + "\n"}), [(path, 1, "core-pure")])
        self.assertEqual(violations({path: "#include <chrono>\nstd::chrono::seconds s;\n"}), [])

    def test_heavy_headers_stay_out_of_headers(self):
        for include in ("<nlohmann/json.hpp>", "<httplib.h>", "<google/protobuf/message.h>",
                        '"nstance/v1/server.pb.h"', '"nlohmann/json.hpp"'):
            with self.subTest(include=include):
                path = "src/server/x.h"
                self.assertEqual(violations({path: f"#pragma once\n#include {include}\n"}),
                                 [(path, 2, "heavy-header")])
                self.assertEqual(violations({"src/server/x.cc": f"#include {include}\n"}), [])
        self.assertEqual(
            violations({"src/server/x.h": "#pragma once\n#include <nlohmann/json_fwd.hpp>\n"}), [])


class Form(unittest.TestCase):

    def test_a_comment_beyond_100_columns_is_found(self):
        self.assertEqual(
            violations({"src/core/x.cc": "// " + "x" * 97 + "\n// " + "y" * 98 + "\n"}),
            [("src/core/x.cc", 2, "columns")])

    def test_a_header_without_pragma_once_is_found(self):
        self.assertEqual(violations({"src/core/x.h": "// #pragma once\n"}),
                         [("src/core/x.h", 1, "pragma-once")])

    def test_file_names_are_snake_case(self):
        self.assertEqual(violations({"src/core/GroupPlan.h": "#pragma once\n"}),
                         [("src/core/GroupPlan.h", 1, "file-name")])
        self.assertEqual(violations({"src/core/y.cpp": ""}), [("src/core/y.cpp", 1, "file-name")])

    def test_every_folder_has_a_short_readme(self):
        path = "src/core/README.md"
        self.assertEqual(violations({path: None}), [(path, 1, "readme")])
        self.assertEqual(violations({path: "line\n" * 30}), [])
        self.assertEqual(violations({path: "line\n" * 31}), [(path, 31, "readme")])


class Exemptions(unittest.TestCase):

    PATH = "src/ports/x.cc"

    def test_a_line_with_a_reason_is_exempt(self):
        self.assertEqual(violations({self.PATH: "throw 1;  // allow(throw): the library asks.\n"}), [])
        two = "std::mutex m; throw 1;  // allow(throw, mutex): the library asks.\n"
        self.assertEqual(violations({self.PATH: two}), [])

    def test_a_line_without_a_reason_is_not(self):
        for comment in ("// allow(throw)", "// allow(throw):", "// allow(throw):  "):
            with self.subTest(comment=comment):
                self.assertEqual(violations({self.PATH: f"throw 1;  {comment}\n"}),
                                 [(self.PATH, 1, "allow"), (self.PATH, 1, "throw")])

    def test_it_exempts_its_own_line_and_rule_only(self):
        text = "throw 1;  // allow(throw): reason.\nthrow 2;\nusleep(1);  // allow(throw): reason.\n"
        self.assertEqual(violations({self.PATH: text}),
                         [(self.PATH, 2, "throw"), (self.PATH, 3, "allow"), (self.PATH, 3, "sleep")])


class LooksLikeAMistake(unittest.TestCase):

    GREEN = [
        "// std::thread, assert(x), throw",
        "/* usleep(1);\n   throw */ int a;",
        'auto s = "throw usleep(1) // std::mutex";',
        'auto s = "a\\"throw"; auto c = \'"\'; auto d = "throw";',
        'auto s = R"(throw " usleep(1))"; auto t = R"x(throw )" throw)x";',
        'auto s = u8R"(throw)";',
        "auto n = 1'000'000; auto m = 0x1'F;",
        '// #include "server/x.h"',
        '/*\n#include "server/x.h"\n*/',
        "static_assert(sizeof(int) == 4);",
        "timer.sleep(1); timer->sleep(1); int runtime(0);",
        "snprintf(buffer, size, text);",
        "int throws; int rethrow; int operand(int);",
        "std::unordered_map<int, int> m; void F() { m.find(1); for (int i : list) {} }",
        "std::map<int, Group*> m; std::vector<Group*> v; std::set<int> s;",
        "struct S { int double_click; };",
    ]

    def test_it_stays_green(self):
        for code in self.GREEN:
            with self.subTest(code=code):
                self.assertEqual(violations({"src/ports/x.cc": code + "\n"}), [])

    def test_code_after_a_literal_is_still_read(self):
        path = "src/ports/x.cc"
        for code in ('auto s = "\\\\"; throw 1;', "auto c = '\\''; throw 1;", "f(1'000, 'x'); throw 1;",
                     'auto s = R"(")"; throw 1;', "/* */ throw 1; // x"):
            with self.subTest(code=code):
                self.assertEqual(violations({path: code + "\n"}), [(path, 1, "throw")])


if __name__ == "__main__":
    unittest.main()
