# Compiler and linker flags shared by every target. What differs between presets comes in through
# the NSTANCE_* cache variables that CMakePresets.json sets; a plain `cmake -S . -B x` also works.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported()

set(NSTANCE_SANITIZE "" CACHE STRING "Value for -fsanitize=, empty for none")
option(NSTANCE_WERROR "Treat warnings as errors" OFF)
option(NSTANCE_HARDEN "Hardening flags for what is shipped" OFF)
option(NSTANCE_COVERAGE "Instrument for gcov" OFF)
option(NSTANCE_SIM "Fault points and planted bugs, for the simulator alone" OFF)
option(NSTANCE_FUZZ "Build libFuzzer targets (needs clang)" OFF)

find_program(NSTANCE_CCACHE ccache)
if(NSTANCE_CCACHE)
  # Paths below the tree are cached as relative ones: another clone on this machine finds them. The
  # names in debug information are relative anyway.
  set(CMAKE_CXX_COMPILER_LAUNCHER env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
                                  "${NSTANCE_CCACHE}")
endif()

# mold links several times faster than the default linker. clang finds it through -fuse-ld too.
find_program(NSTANCE_MOLD mold)
if(NSTANCE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
                    -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies in std::string::operator=(const char*) that are not there.
  add_compile_options(-Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12 sorts stably with a function that it has itself deprecated; only clang tells of it.
  add_compile_options(-Wno-deprecated-declarations)
endif()
if(NSTANCE_WERROR)
  add_compile_options(-Werror)
endif()

# Reproducible: no path of the building machine in the output.
add_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}=." "-ffile-prefix-map=${PROJECT_BINARY_DIR}=build")

if(NSTANCE_SANITIZE)
  add_compile_options(-fsanitize=${NSTANCE_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${NSTANCE_SANITIZE})
endif()
if(NSTANCE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(NSTANCE_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()
if(NSTANCE_SIM)
  if(NSTANCE_HARDEN)
    message(FATAL_ERROR "What is shipped has no fault points: NSTANCE_SIM without NSTANCE_HARDEN")
  endif()
  add_compile_definitions(NSTANCE_SIM)
endif()
if(NSTANCE_HARDEN)
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS
                      -fstack-protector-strong -fstack-clash-protection
                      # What a static program does not use is left out of it by the linker.
                      -ffunction-sections -fdata-sections)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64")
    add_compile_options(-fcf-protection=full)
  endif()
  add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()
