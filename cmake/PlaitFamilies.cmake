# plait_families(<target> FOLDER <folder> [EXCLUDE <file>...] HEADER <header> NAMESPACE <namespace> DECLARE <declaration>
#                FUNCTION <head> EACH <call>)
#
# Every *.cpp of FOLDER is a family and registers itself by one function: adding a file adds it, nothing else is edited. Writes a
# source file with FUNCTION, which calls EACH for every family, and gives it to the target. In DECLARE and EACH the word FAMILY
# stands for the name of the file without its ending.
function(plait_families target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER;HEADER;NAMESPACE;DECLARE;FUNCTION;EACH" "EXCLUDE")
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${arg_FOLDER}/*.cpp)
  set(declarations "")
  set(calls "")
  foreach(file IN LISTS files)
    cmake_path(GET file FILENAME name)
    cmake_path(GET file STEM family)
    if(name IN_LIST arg_EXCLUDE)
      continue()
    endif()
    string(REPLACE "FAMILY" "${family}" declaration "${arg_DECLARE}")
    string(REPLACE "FAMILY" "${family}" call "${arg_EACH}")
    string(APPEND declarations "${declaration};\n")
    string(APPEND calls "  ${call};\n")
  endforeach()
  set(text "// Written by cmake/PlaitFamilies.cmake from the files of ${arg_FOLDER}/.\n#include \"${arg_HEADER}\"\n\n")
  string(APPEND text "namespace ${arg_NAMESPACE} {\n\n${declarations}\n${arg_FUNCTION} {\n${calls}}\n\n}  // namespace\n")
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${target}_families.cpp)
  file(WRITE ${out}.new "${text}")
  file(COPY_FILE ${out}.new ${out} ONLY_IF_DIFFERENT)
  target_sources(${target} PRIVATE ${out})
endfunction()
