# Helpers that give every target of the house the same shape.

set(warnings
    -Wall -Wextra
    -Wshadow              # a shadowed name is usually the wrong one
    -Wconversion          # counts are 64-bit: a silent narrowing is a 2 GiB bug
    -Wno-sign-conversion  # sizes and ranks meet at every index; the checked helpers in base/ guard the ones that matter
    -Wno-restrict         # g++ 12 at -O3 sees an overlap in "text" + string that is not there (GCC bug 105651)
    -Wnon-virtual-dtor
    -Wold-style-cast
    -Woverloaded-virtual)

# What every target of ours is compiled with, libraries, tests and programs alike.
function(unisono_compile_options target)
  target_compile_options(${target} PRIVATE "$<$<BOOL:${UNISONO_WARNINGS}>:${warnings}>" $<$<BOOL:${UNISONO_WERROR}>:-Werror>)
  if(UNISONO_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${UNISONO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    # AddressSanitizer's checks as calls, and without those checks of every load that find nothing that it does not
    # (null, object-size, vptr) or that x86 seldom minds (alignment): two thirds of the time to compile, the same to run.
    if(UNISONO_SANITIZE MATCHES address AND UNISONO_SANITIZE_LIGHT)
      target_compile_options(${target} PRIVATE -fno-sanitize=null,object-size,alignment,vptr
                                               "SHELL:--param asan-instrumentation-with-call-threshold=0")
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${UNISONO_SANITIZE})
  endif()
endfunction()

# Most of a small file's time is its headers: several at once take half. Not where one edits (UNISONO_UNITY, the dev preset):
# there a file alone is sooner compiled, and one that lacks an include is told.
function(unisono_several_at_once target)
  if(UNISONO_UNITY)
    get_target_property(seldom ${target} UNISONO_SELDOM_RUNS)
    set(batch 8)  # g++ inlines less where a unit is large
    if(seldom)
      set(batch 16)
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  endif()
endfunction()

# What runs once, or waits for people and networks: to optimise it fully takes two thirds longer to compile, and gains nothing.
function(unisono_seldom_runs target)
  set_target_properties(${target} PROPERTIES UNISONO_SELDOM_RUNS ON)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# What a test does itself is soon done: to optimise it fully takes longer than it saves.
function(unisono_test_options target)
  unisono_compile_options(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og>)
endfunction()

# What most files include first, compiled once for all targets of a kind (library, seldom, test),
# which have the same options: a fifth of the time. Not for the libraries of the release preset,
# which ccache has from the package's build.
function(unisono_precompiled target kind)
  if(NOT UNISONO_PRECOMPILE OR (UNISONO_TESTS AND NOT UNISONO_SANITIZE AND NOT kind STREQUAL test))
    return()
  endif()
  set(first unisono_${kind}_headers)
  if(NOT TARGET ${first})
    set(source ${PROJECT_BINARY_DIR}/headers/${kind}.cc)
    set(headers <algorithm> <array> <atomic> <chrono> <cstring> <deque> <functional> <map> <memory> <mutex> <optional> <random> <span> <string>
                <thread> <unordered_map> <vector> <fmt/format.h>)
    if(kind STREQUAL test)
      file(GENERATE OUTPUT ${source} CONTENT "int main() {}\n")
      add_executable(${first} EXCLUDE_FROM_ALL ${source})
      target_link_libraries(${first} PRIVATE GTest::gmock)
      unisono_test_options(${first})
      list(APPEND headers <gtest/gtest.h>)
    else()
      file(GENERATE OUTPUT ${source} CONTENT "")
      add_library(${first} STATIC EXCLUDE_FROM_ALL ${source})
      unisono_compile_options(${first})
      if(kind STREQUAL seldom)
        unisono_seldom_runs(${first})
      endif()
    endif()
    target_link_libraries(${first} PRIVATE ${UNISONO_FMT})
    target_precompile_headers(${first} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${first})
endfunction()

# unisono_layer(NAME [SELDOM_RUNS] SOURCES a.cc b.cc USES base plan EXTERNAL ${UNISONO_FMT})
# A folder of src/ as a static library, later folded into the one shared library.
function(unisono_layer name)
  cmake_parse_arguments(ARG "SELDOM_RUNS" "" "SOURCES;USES;EXTERNAL" ${ARGN})
  add_library(unisono_${name} STATIC ${ARG_SOURCES})
  target_include_directories(unisono_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  target_compile_definitions(unisono_${name} PRIVATE UNISONO_BUILDING)
  list(TRANSFORM ARG_USES PREPEND unisono_)
  target_link_libraries(unisono_${name} PUBLIC ${ARG_USES} ${ARG_EXTERNAL})
  unisono_compile_options(unisono_${name})
  set(kind library)
  if(ARG_SELDOM_RUNS)
    set(kind seldom)
    unisono_seldom_runs(unisono_${name})
  endif()
  unisono_several_at_once(unisono_${name})
  unisono_precompiled(unisono_${name} ${kind})
endfunction()

# unisono_test(NAME SOURCES a_test.cc USES plan): a GoogleTest program, one ctest entry a program, labelled with its folder.
function(unisono_test name)
  cmake_parse_arguments(ARG "OPTIONS_OF_ITS_OWN" "TIMEOUT" "SOURCES;USES;EXTERNAL" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_USES PREPEND unisono_)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_USES} ${ARG_EXTERNAL} GTest::gmock GTest::gtest_main)
  unisono_test_options(${name})
  unisono_several_at_once(${name})
  if(NOT ARG_OPTIONS_OF_ITS_OWN)
    unisono_precompiled(${name} test)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS ${folder})
endfunction()
