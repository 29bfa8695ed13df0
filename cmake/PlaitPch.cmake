# plait_use_pch(<folder>): with PLAIT_PCH, the targets below <folder> use precompiled headers. Without
# them, half of the time of a build is spent reading the same standard headers again for each file.
# Called at the end of the root's CMakeLists.txt, when all targets exist.
#
# Only headers of others are precompiled: a change of one of ours compiles again only the files that
# include it. A precompiled header hides that a file lacks an #include. Therefore the dev preset alone
# sets PLAIT_PCH; the other presets and lint compile without it and report the file.
option(PLAIT_PCH "Precompile the standard headers: faster builds, but a missing #include is not seen" OFF)

set(plait_pch_standard
    <algorithm> <array> <atomic> <bit> <cerrno> <charconv> <chrono> <cmath> <condition_variable> <cstddef> <cstdint> <cstdio>
    <cstdlib> <cstring> <deque> <exception> <functional> <iterator> <limits> <map> <memory> <mutex> <new> <numeric> <optional>
    <set> <span> <sstream> <stdexcept> <string> <string_view> <thread> <tuple> <unordered_map> <utility> <vector>)

# ccache accepts a precompiled header only if the preprocessor notes where it is used and, for clang,
# if it contains no time stamp.
set(plait_pch_flags $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
                    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
# GCC no longer knows that functions which it inlines from a precompiled header are of a system
# header, and reports overflows in std::string that are none.
list(APPEND plait_pch_flags
     "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>")

# plait_pch(<name> [FLAGS <flags>...] HEADERS <headers>...): the object library plait_pch_<name>. The
# compiler accepts a precompiled header only with the flags that it was made with, above all -fPIC and
# -fopenmp.
function(plait_pch name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FLAGS;HEADERS")
  set(source ${PROJECT_BINARY_DIR}/pch_${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Precompiled headers belong to a target with a source file.\n")
  add_library(plait_pch_${name} OBJECT ${source})
  target_compile_options(plait_pch_${name} PRIVATE ${plait_pch_flags} ${arg_FLAGS})
  target_precompile_headers(plait_pch_${name} PRIVATE ${arg_HEADERS})
endfunction()

# plait_pch_of(<target> <result>): the name of the precompiled headers that fit the target's flags, or
# nothing.
function(plait_pch_of target result)
  get_target_property(kind ${target} TYPE)
  get_target_property(folder ${target} SOURCE_DIR)
  get_target_property(sources ${target} SOURCES)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  set(name "")
  if(NOT "${sources}" MATCHES "\\.cpp" OR target MATCHES "^plait_pch_")
    # C, or no sources at all
  elseif(OpenMP::OpenMP_CXX IN_LIST libraries)
    set(name openmp)
  elseif(folder MATCHES "^${PROJECT_SOURCE_DIR}/tests")
    # doctest's header registers a test suite in each file that reads it, so programs without doctest
    # do not link with it.
    set(name standard)
    if("${libraries}" MATCHES "doctest::doctest|plait_unit_main|comm_cases")
      set(name tests)
    endif()
  elseif(kind MATCHES "^(STATIC|MODULE|OBJECT)_LIBRARY$")
    set(name standard)
  endif()
  set(${result} "${name}" PARENT_SCOPE)
endfunction()

function(plait_use_pch folder)
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder IN LISTS subfolders)
    plait_use_pch(${subfolder})
  endforeach()
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    plait_pch_of(${target} name)
    if(PLAIT_PCH AND TARGET plait_pch_${name})
      target_compile_options(${target} PRIVATE ${plait_pch_flags})
      target_precompile_headers(${target} REUSE_FROM plait_pch_${name})
    endif()
  endforeach()
endfunction()

if(PLAIT_PCH)
  plait_pch(standard HEADERS ${plait_pch_standard})
  plait_pch(openmp FLAGS ${OpenMP_CXX_FLAGS} HEADERS ${plait_pch_standard})
  if(PLAIT_BUILD_TESTS)
    plait_pch(tests HEADERS ${plait_pch_standard} <doctest/doctest.h>)
  endif()
endif()
