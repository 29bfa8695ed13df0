# Every library that the tree may use, found once here. All are in Debian 12; tools/packages.txt
# names the packages.
#
# Targets: Threads::Threads plait_xxhash plait_toml ZLIB::ZLIB CURL::libcurl
# nlohmann_json::nlohmann_json CLI11::CLI11 DNNL::dnnl OpenMP::OpenMP_CXX plait_hwy plait_xbyak
# plait_md plait_utf8proc plait_sentencepiece, doctest::doctest if tests are built, and where they
# are installed PNG::PNG JPEG::JPEG.

# plait_find_headers(<target> <header> [LIBRARY <name>]): an INTERFACE target for a package without
# its own CMake file.
function(plait_find_headers target header)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "LIBRARY" "")
  find_path(${target}_INCLUDE ${header} REQUIRED)
  mark_as_advanced(${target}_INCLUDE)
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE})
  if(arg_LIBRARY)
    find_library(${target}_LIBRARY ${arg_LIBRARY} REQUIRED)
    mark_as_advanced(${target}_LIBRARY)
    target_link_libraries(${target} INTERFACE ${${target}_LIBRARY})
  endif()
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(CURL REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(dnnl CONFIG REQUIRED) # its own file looks for OpenCL, hence ocl-icd-opencl-dev in the package list
plait_find_headers(plait_xxhash xxhash.h LIBRARY xxhash)
plait_find_headers(plait_toml toml++/toml.h) # header-only: an embedded libplait should need few libraries
plait_find_headers(plait_hwy hwy/highway.h LIBRARY hwy)
plait_find_headers(plait_xbyak xbyak/xbyak.h)
plait_find_headers(plait_md sha256.h LIBRARY md)
plait_find_headers(plait_utf8proc utf8proc.h LIBRARY utf8proc)
plait_find_headers(plait_sentencepiece sentencepiece_processor.h LIBRARY sentencepiece)
find_package(PNG QUIET)
find_package(JPEG QUIET)
if(PLAIT_BUILD_TESTS)
  find_package(doctest CONFIG REQUIRED)
endif()
