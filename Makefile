# A thin front for CMake and the scripts in tools/. `make help` lists what there is.

.DEFAULT_GOAL := help
JOBS ?= 2
# How long each fuzz target runs in `make test`; `make fuzz` is for long runs.
FUZZ_SECONDS ?= 15

.PHONY: help setup build test sim sim-mutants sim-bench sim-elections peers demo demo-down lint format bench coverage fuzz clean

help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install the Debian packages that building and testing need
	@tools/setup

# Configures a preset on first use; CMake itself notices later changes.
build/%/build.ninja: CMakePresets.json | setup
	cmake --preset $*

build: build/release/build.ninja ## build the release programs into build/bin/
	cmake --build --preset release -j $(JOBS) --target programs

test: build/dev/build.ninja build/tsan/build.ninja build/sim/build.ninja build/fuzz/build.ninja build/release/build.ninja ## build and run every test; the last line counts them
	cmake --build --preset dev -j $(JOBS)
	cmake --build --preset tsan -j $(JOBS) --target tsan_tests
	cmake --build --preset sim -j $(JOBS) --target sim_tests
	cmake --build --preset release -j $(JOBS) --target programs hardening_sample bench_programs
	cmake -DNSTANCE_FUZZ_SECONDS=$(FUZZ_SECONDS) build/fuzz > /dev/null
	cmake --build --preset fuzz -j $(JOBS) --target fuzzers
	@tools/run_tests --jobs $(JOBS) build/dev build/tsan:tsan build/sim:sim build/release:release build/fuzz:fuzz

# SEEDS=n or MINUTES=n; FROM=n for other seeds. A violation ends it and prints how to see it again;
# with KEEP_GOING=1 all are listed.
sim: build/sim/build.ninja ## simulate whole shards under faults (SEEDS=2000, or MINUTES=30)
	cmake --build --preset sim -j $(JOBS) --target nstance-sim
	@tools/sim build/sim/test/sim/nstance-sim --from $(or $(FROM),0) --jobs $(JOBS) \
	  $(if $(MINUTES),--minutes $(MINUTES),--seeds $(or $(SEEDS),2000)) $(if $(KEEP_GOING),--keep-going)

# STARTS=1 is enough to write the table of plants_test; ONLY="a b" looks for these alone.
sim-mutants: build/sim/build.ninja ## does the simulator find the bugs that were planted for it?
	cmake --build --preset sim -j $(JOBS) --target nstance-sim
	@tools/sim build/sim/test/sim/nstance-sim --mutants --jobs $(JOBS) --starts $(or $(STARTS),3) \
	  $(if $(ONLY),--only $(ONLY)) --table test/sim/plants.tsv

sim-bench: build/sim/build.ninja ## simulated seconds per second, with 3 servers and 50 agents
	cmake --build --preset sim -j $(JOBS) --target nstance-sim
	@build/sim/test/sim/nstance-sim --bench $(or $(SECONDS),20000)

sim-elections: build/release/build.ninja ## simulate elections alone with SEEDS seeds (default 100000)
	cmake --build --preset release -j $(JOBS) --target election_sim_main
	build/release/test/sim/election_sim_main --from $(or $(FROM),0) --seeds $(or $(SEEDS),100000)

peers: setup ## install the real programs that tests run against, into a cache outside the tree
	@tools/peers

demo: build ## a running cluster on this machine: a server, a standby, a group of three instances
	@tools/demo up

demo-down: ## stop the demo and remove every trace of it
	@tools/demo down

lint: build/dev/build.ninja ## formatting, layers, banned calls, clang-tidy, shell scripts
	@tools/lint

format: setup ## format all sources in place
	@tools/format

# MODE=--quick proves in three minutes that everything works; MODE=--full is load.md's and takes hours.
bench: build/release/build.ninja ## build and run the benchmarks; ratios to the Go baseline at the end
	cmake --build --preset release -j $(JOBS) --target benchmarks
	@tools/bench $(MODE)

coverage: build/coverage/build.ninja ## run the tests with gcov and write build/coverage/report/
	cmake --build --preset coverage -j $(JOBS)
	@tools/coverage

# TARGET=json_fuzz to run one; SECONDS=600 for each.
fuzz: build/fuzz/build.ninja ## fuzz every target for SECONDS (default 600) each; new finds join the kept corpus
	cmake --build --preset fuzz -j $(JOBS) --target fuzzers
	@tools/fuzz $(or $(SECONDS),600) $(TARGET)

clean: ## remove everything that was built
	rm -rf build
