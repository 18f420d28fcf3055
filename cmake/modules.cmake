# The only ways in which this project makes targets.
#
#   nstance_module(NAME SOURCES a.cc DEPS base LIBRARIES fmt::fmt)
#     One folder below src/, one static library. NAME is the folder (`base`, `adapters/http`). DEPS are
#     other modules, LIBRARIES outside libraries. It also links `<name>_closure`: the whole archive
#     with nothing but what is declared here, so that an undeclared dependency is a link error.
#     Without SOURCES the module is headers only.
#   nstance_program(NAME SOURCES x_main.cc DEPS ... [STATIC])
#     A program that is shipped. In the release preset it lands in build/bin/; with STATIC as one file
#     that needs nothing else of the machine than its kernel (cmake/static_libraries.cmake).
#   nstance_test(NAME SOURCES x_test.cc DEPS ... LABELS unit)
#     One GoogleTest binary and one CTest entry. tools/run_tests reads its JSON for the counts.
#     The label `tsan` makes it run under ThreadSanitizer too.
#   nstance_reads_source_tree(x_test.cc ...)
#     These sources of a test in the same folder know the tree by NSTANCE_SOURCE_DIR. The others do
#     not, so that clones in different folders share what was compiled.
#   nstance_benchmark(NAME SOURCES x_bench.cc DEPS ...)
#     One Google Benchmark binary, run by `make bench`.
#   nstance_script_test(NAME COMMAND ... LABELS unit)
#     Anything else that is a test: exit 0 passed, 77 skipped (last line is the reason).
#   nstance_fuzz(NAME SOURCES x_fuzz.cc DEPS ...)
#     A libFuzzer target with its corpus in test/fuzz/corpus/<NAME>. Presets other than `fuzz` build
#     it with a plain main that replays the corpus, as a test.

function(_nstance_target_name name out)
  string(REPLACE "/" "_" flat "${name}")
  set(${out} "nstance_${flat}" PARENT_SCOPE)
endfunction()

function(_nstance_link target scope)
  foreach(dep IN LISTS ARGN)
    _nstance_target_name("${dep}" dep_target)
    target_link_libraries(${target} ${scope} ${dep_target})
  endforeach()
endfunction()

function(nstance_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;LIBRARIES")
  nstance_outside(arg_LIBRARIES ${arg_LIBRARIES})
  _nstance_target_name("${name}" target)
  if(NOT arg_SOURCES)
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE "${PROJECT_SOURCE_DIR}/src")
    _nstance_link(${target} INTERFACE ${arg_DEPS})
    target_link_libraries(${target} INTERFACE ${arg_LIBRARIES})
    return()
  endif()
  add_library(${target} STATIC ${arg_SOURCES})
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}/src")
  _nstance_link(${target} PUBLIC ${arg_DEPS})
  target_link_libraries(${target} PUBLIC ${arg_LIBRARIES})

  if(NSTANCE_TESTS AND NOT NSTANCE_FUZZ)
    string(REPLACE "nstance_" "" flat "${target}")
    add_executable(${flat}_closure "${PROJECT_SOURCE_DIR}/cmake/closure_main.cc")
    target_link_libraries(${flat}_closure PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${target}>")
    add_test(NAME ${flat}_closure COMMAND ${flat}_closure)
    set_tests_properties(${flat}_closure PROPERTIES LABELS unit)
  endif()
endfunction()

# `programs` is what is shipped; `tsan_tests` what runs under ThreadSanitizer; `sim_tests` what runs
# with fault points, in the preset `sim`; `benchmarks` what `make bench` runs; `fuzzers` what is
# fuzzed. Each is built alone where the rest of a preset would only cost time.
add_custom_target(programs)
add_custom_target(tsan_tests)
add_custom_target(sim_tests)
add_custom_target(benchmarks)
add_custom_target(fuzzers)

function(nstance_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "STATIC" "" "SOURCES;DEPS;LIBRARIES")
  nstance_outside(arg_LIBRARIES ${arg_LIBRARIES})
  add_executable(${name} ${arg_SOURCES})
  _nstance_link(${name} PRIVATE ${arg_DEPS})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
  if(NSTANCE_HARDEN)
    set_target_properties(${name} PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY "${PROJECT_SOURCE_DIR}/build/bin")
    if(arg_STATIC)
      set_target_properties(${name} PROPERTIES NSTANCE_STATIC ON)
      # CMake's own -pie would come last and win over -static-pie.
      set_property(TARGET ${name} PROPERTY POSITION_INDEPENDENT_CODE)
      target_compile_options(${name} PRIVATE -fPIE)
      target_link_options(${name} PRIVATE -static-pie -Wl,--gc-sections
                          -Wl,-z,pack-relative-relocs)
    endif()
  endif()
  add_dependencies(programs ${name})
endfunction()

function(nstance_benchmark name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;LIBRARIES")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  _nstance_link(${name} PRIVATE ${arg_DEPS})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} benchmark::benchmark)
  set_target_properties(${name} PROPERTIES
                        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench-bin")
  add_dependencies(benchmarks ${name})
endfunction()

function(nstance_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;DEPS;LIBRARIES;LABELS")
  if(NSTANCE_FUZZ)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  if(NSTANCE_SANITIZE)
    # Sanitizers and optimisation together double the time that a test takes to compile, and only the
    # code under test needs to be fast; what is undefined is looked for there too.
    target_compile_options(${name} PRIVATE -O0 -fno-sanitize=undefined)
  endif()
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  _nstance_link(${name} PRIVATE ${arg_DEPS})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
    ENVIRONMENT "GTEST_OUTPUT=json:${PROJECT_BINARY_DIR}/test-results/${name}.json")
  if("tsan" IN_LIST arg_LABELS)
    add_dependencies(tsan_tests ${name})
  endif()
  if("sim" IN_LIST arg_LABELS)
    add_dependencies(sim_tests ${name})
  endif()
endfunction()

function(nstance_reads_source_tree)
  set_source_files_properties(${ARGV} PROPERTIES
                              COMPILE_DEFINITIONS NSTANCE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endfunction()

function(nstance_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "COMMAND;LABELS")
  if(NSTANCE_FUZZ)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77)
endfunction()

set(NSTANCE_FUZZ_SECONDS 20 CACHE STRING "How long each fuzz target runs as a test")

function(nstance_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MAX_LEN" "SOURCES;DEPS")
  set(corpus "${PROJECT_SOURCE_DIR}/test/fuzz/corpus/${name}")
  if(NOT arg_MAX_LEN)
    set(arg_MAX_LEN 4096)
  endif()
  if(NSTANCE_FUZZ)
    add_executable(${name} ${arg_SOURCES})
    add_dependencies(fuzzers ${name})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    # New finds go to the build folder; the kept corpus is only read.
    set(grown "${PROJECT_BINARY_DIR}/corpus/${name}")
    file(MAKE_DIRECTORY "${grown}")
    math(EXPR timeout "${NSTANCE_FUZZ_SECONDS} + 120")
    add_test(NAME ${name} COMMAND ${name}
      -max_total_time=${NSTANCE_FUZZ_SECONDS} -max_len=${arg_MAX_LEN} -timeout=10
      -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0
      "-artifact_prefix=${PROJECT_BINARY_DIR}/${name}-" "${grown}" "${corpus}")
    set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT ${timeout})
  else()
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE nstance_fuzz_replay)
    add_test(NAME ${name}_replay COMMAND ${name} "${corpus}")
    set_tests_properties(${name}_replay PROPERTIES LABELS unit TIMEOUT 120)
  endif()
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  _nstance_link(${name} PRIVATE ${arg_DEPS})
endfunction()
