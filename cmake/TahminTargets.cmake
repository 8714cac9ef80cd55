# The compile options of every target and the ways to declare one:
#   tahmin_library(<folder> SOURCES ... DEPENDS ...)  -> target tahmin_<folder>
#   tahmin_test(<name> SOURCES ... DEPENDS ... [LABELS ...])   LABELS defaults to unit
#   tahmin_portable_test(<name> [FILTER ...] [LABELS ...])   runs the test <name> again on the portable kernels
#   tahmin_threaded_test(<name> FILTER ...)           what of the test <name> ThreadSanitizer looks at
#   tahmin_isa_source(<file> <flags>...)              -> per-file instruction-set flags

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library(tahmin_options INTERFACE)
target_include_directories(tahmin_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
                                                    ${PROJECT_SOURCE_DIR})
# No contraction: a row must give the same bits in every tiling (docs/exactness.md).
target_compile_options(tahmin_options INTERFACE -ffp-contract=off -Wall -Wextra -Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False alarms out of GCC's own AVX-512 headers.
  target_compile_options(tahmin_options INTERFACE -Wno-maybe-uninitialized)
endif()
# A target with the property TAHMIN_COMPILE_ONLY keeps of all instruments AddressSanitizer only: it
# compiles in less than half of the time. (That one must be on everywhere or nowhere: Abseil's
# containers poison memory of theirs that code without it would touch.)
set(is_instrumented "$<NOT:$<BOOL:$<TARGET_PROPERTY:TAHMIN_COMPILE_ONLY>>>")
if(TAHMIN_SANITIZER)
  if(TAHMIN_SANITIZER MATCHES "address")
    target_compile_options(tahmin_options INTERFACE "$<$<NOT:${is_instrumented}>:-fsanitize=address>")
  endif()
  target_compile_options(tahmin_options INTERFACE
    "$<${is_instrumented}:-fsanitize=${TAHMIN_SANITIZER};-fno-omit-frame-pointer;-fno-sanitize-recover=all;-g1>")
  # Of the code of tests UndefinedBehaviorSanitizer leaves out the checks of every single access, and its
  # lines have no numbers: both take a third of the time. What is tested keeps all.
  if(TAHMIN_SANITIZER MATCHES "undefined")
    target_compile_options(tahmin_options INTERFACE
      "$<$<BOOL:$<TARGET_PROPERTY:TAHMIN_IS_TEST>>:-fno-sanitize=null,alignment,object-size,vptr;-g0>")
  endif()
  target_link_options(tahmin_options INTERFACE -fsanitize=${TAHMIN_SANITIZER})
endif()

if(TAHMIN_BUILD_FUZZERS)
  # Coverage in every library; tests/fuzz links libFuzzer itself.
  target_compile_options(tahmin_options INTERFACE "$<${is_instrumented}:-fsanitize=fuzzer-no-link>")
endif()

# What tests need in their environment.
set(TAHMIN_TEST_ENVIRONMENT "")
if(TAHMIN_SANITIZER MATCHES "thread")
  list(APPEND TAHMIN_TEST_ENVIRONMENT "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp")
endif()
if(TAHMIN_SANITIZER MATCHES "address")
  list(APPEND TAHMIN_TEST_ENVIRONMENT
       "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan.supp:print_suppressions=0")
endif()
if(TAHMIN_SANITIZER MATCHES "undefined")
  list(APPEND TAHMIN_TEST_ENVIRONMENT "UBSAN_OPTIONS=print_stacktrace=1")
endif()

# Builds all tests with the label unit, which is what the sanitizer presets run.
add_custom_target(unit_tests)

# The headers that nearly every file includes are read once for all libraries: a third of the time of a
# file. Builds with clang read each file's own includes, so that none is forgotten.
function(tahmin_precompile_library_headers target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  get_property(headers_from GLOBAL PROPERTY TAHMIN_LIBRARY_HEADERS_FROM)
  if(headers_from)
    target_precompile_headers(${target} REUSE_FROM ${headers_from})
  else()
    target_precompile_headers(${target} PRIVATE
      <absl/status/status.h> <absl/status/statusor.h> <fmt/format.h> <algorithm> <cstdint> <filesystem> <functional>
      <memory> <optional> <span> <string> <string_view> <unordered_map> <utility> <vector>)
    set_property(GLOBAL PROPERTY TAHMIN_LIBRARY_HEADERS_FROM ${target})
  endif()
endfunction()

function(tahmin_library folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  if(ARG_SOURCES)
    add_library(tahmin_${folder} STATIC ${ARG_SOURCES})
    target_link_libraries(tahmin_${folder} PUBLIC tahmin_options ${ARG_DEPENDS})
    tahmin_precompile_library_headers(tahmin_${folder})
  else()
    add_library(tahmin_${folder} INTERFACE)
    target_link_libraries(tahmin_${folder} INTERFACE tahmin_options ${ARG_DEPENDS})
  endif()
endfunction()

function(tahmin_test name)
  if(NOT TAHMIN_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  # What is tested runs as users run it; the tests themselves only need to compile fast.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  set_target_properties(${name} PROPERTIES TAHMIN_IS_TEST ON)
  # Half of what a test takes to compile is these headers: read once, for all tests.
  get_property(headers_from GLOBAL PROPERTY TAHMIN_TEST_HEADERS_FROM)
  if(headers_from)
    target_precompile_headers(${name} REUSE_FROM ${headers_from})
  else()
    target_precompile_headers(${name} PRIVATE <gmock/gmock.h> <gtest/gtest.h> <absl/status/statusor.h> <string> <vector>)
    set_property(GLOBAL PROPERTY TAHMIN_TEST_HEADERS_FROM ${name})
  endif()
  # A GTEST_SKIP() test is reported by CTest as skipped, never as passed.
  gtest_discover_tests(${name} NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 1200)
  # gtest_discover_tests cannot pass a list of labels on, so they are set when CTest has read the tests.
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake
       "if(${name}_TESTS)\n"
       "  set_tests_properties(\${${name}_TESTS} PROPERTIES\n"
       "    LABELS \"${ARG_LABELS}\" ENVIRONMENT \"${TAHMIN_TEST_ENVIRONMENT}\")\n"
       "endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake)
  if("unit" IN_LIST ARG_LABELS)
    add_dependencies(unit_tests ${name})
  endif()
endfunction()

# The same promises hold on every instruction set, and most CPUs have two: the best one, which all
# tests use, and the portable kernels. Not under sanitizers, which make scalar loops slow beyond
# measure: there the kernels' own tests show what the portable ones do to memory.
function(tahmin_portable_test name)
  if(NOT TAHMIN_BUILD_TESTS OR TAHMIN_SANITIZER)
    return()
  endif()
  cmake_parse_arguments(ARG "" "FILTER;LABELS" "" ${ARGN})
  if(NOT ARG_FILTER)
    set(ARG_FILTER "*")
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_test(NAME ${name}_portable COMMAND ${name} --gtest_brief=1 --gtest_filter=${ARG_FILTER})
  set_tests_properties(${name}_portable PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 1200
                       ENVIRONMENT "TAHMIN_ISA=portable;${TAHMIN_TEST_ENVIRONMENT}")
endfunction()

# ThreadSanitizer makes everything many times slower and finds nothing where one thread runs: the
# preset tsan builds and runs only tests that share work between threads, each kind once (which
# quantised type is multiplied makes no difference to who writes where).
add_custom_target(threaded_tests)
function(tahmin_threaded_test name)
  if(NOT TAHMIN_BUILD_TESTS OR NOT TAHMIN_SANITIZER MATCHES "thread")
    return()
  endif()
  cmake_parse_arguments(ARG "" "FILTER" "" ${ARGN})
  add_test(NAME ${name}_threaded COMMAND ${name} --gtest_filter=${ARG_FILTER})
  set_tests_properties(${name}_threaded PROPERTIES LABELS threads TIMEOUT 1200
                       FAIL_REGULAR_EXPRESSION "Running 0 tests" ENVIRONMENT "${TAHMIN_TEST_ENVIRONMENT}")
  add_dependencies(threaded_tests ${name})
endfunction()

function(tahmin_isa_source file)
  set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${ARGN}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()
