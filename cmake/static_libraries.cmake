# Outside libraries in two forms: the shared one that every program uses, and the archive for programs
# that are one fully static file.
#
#   nstance_program(NAME ... STATIC)     cmake/modules.cmake
#
# A module names libraries as usual (OpenSSL::SSL). Which form is linked depends on the program at the
# end of the chain: nstance_outside() turns each name into an expression that looks at the program's
# property NSTANCE_STATIC. Only presets that ship (NSTANCE_HARDEN) link statically; the sanitizers
# cannot.

# Archive of a Debian package; DEPS are other archives that it needs.
function(_nstance_archive name file)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "DEPS")
  find_library(NSTANCE_ARCHIVE_${name} NAMES ${file} REQUIRED)
  add_library(nstance_static_${name} STATIC IMPORTED GLOBAL)
  set_target_properties(nstance_static_${name} PROPERTIES
    IMPORTED_LOCATION "${NSTANCE_ARCHIVE_${name}}" INTERFACE_LINK_LIBRARIES "${arg_DEPS}")
endfunction()

# Replaces an archive by a copy without unwind tables. For libraries in C that no exception passes
# through: half a megabyte of a static program, and nobody would read them.
function(_nstance_without_unwind_tables name)
  get_filename_component(file "${NSTANCE_ARCHIVE_${name}}" NAME)
  set(copy "${PROJECT_BINARY_DIR}/archives/${file}")
  if(NOT "${NSTANCE_ARCHIVE_${name}}" IS_NEWER_THAN "${copy}")
    set(made 0)
  else()
    file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/archives")
    execute_process(COMMAND "${CMAKE_OBJCOPY}" --remove-section=.eh_frame
                            "${NSTANCE_ARCHIVE_${name}}" "${copy}" RESULT_VARIABLE made)
  endif()
  if(made EQUAL 0)
    set_target_properties(nstance_static_${name} PROPERTIES IMPORTED_LOCATION "${copy}")
  endif()
endfunction()

if(NSTANCE_HARDEN)
  _nstance_archive(crypto libcrypto.a)
  _nstance_archive(ssl libssl.a DEPS nstance_static_crypto)
  _nstance_without_unwind_tables(crypto)
  _nstance_without_unwind_tables(ssl)
  _nstance_archive(z libz.a)
  _nstance_archive(nghttp2 libnghttp2.a)
  _nstance_archive(cares libcares.a)
  _nstance_archive(protobuf libprotobuf.a DEPS nstance_static_z)
  # Debian has no archive of fmt; its headers hold everything.
  add_library(nstance_static_fmt STATIC EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/fmt_static.cc")
  target_compile_options(nstance_static_fmt PRIVATE -w)
endif()

set(_nstance_static_of_OpenSSL::SSL nstance_static_ssl)
set(_nstance_static_of_OpenSSL::Crypto nstance_static_crypto)
set(_nstance_static_of_PkgConfig::NGHTTP2 nstance_static_nghttp2)
set(_nstance_static_of_PkgConfig::CARES nstance_static_cares)
set(_nstance_static_of_ZLIB::ZLIB nstance_static_z)
set(_nstance_static_of_fmt::fmt nstance_static_fmt)
set(_nstance_static_of_protobuf::libprotobuf nstance_static_protobuf)

function(nstance_outside out)
  set(libraries "")
  foreach(library IN LISTS ARGN)
    set(archive "${_nstance_static_of_${library}}")
    if(NSTANCE_HARDEN AND archive)
      list(APPEND libraries
           "$<IF:$<BOOL:$<TARGET_PROPERTY:NSTANCE_STATIC>>,${archive},${library}>")
    else()
      list(APPEND libraries "${library}")
    endif()
  endforeach()
  set(${out} "${libraries}" PARENT_SCOPE)
endfunction()
