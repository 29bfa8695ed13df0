# plait_module(<name> [FOLDER <folder>] [RECURSE] [OBJECT] [EXCLUDE <path>...]
#              [DEPENDS <modules>...] [LIBS <targets>...])
#
# Makes the static library plait_<name> from every *.cpp of FOLDER, by default <name>/ in the
# calling folder; "." is the calling folder itself. The next build picks up new files. A folder with
# only headers becomes an INTERFACE library; an empty or missing one becomes nothing, and modules
# that DEPEND on it are built without it.
#   RECURSE  includes subfolders          OBJECT   makes an object library instead of a static one
#   EXCLUDE  files or subfolders left out  DEPENDS  modules by name      LIBS  other targets
function(plait_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "RECURSE;OBJECT" "FOLDER" "EXCLUDE;DEPENDS;LIBS")
  if(NOT arg_FOLDER)
    set(arg_FOLDER ${name})
  endif()
  cmake_path(SET folder NORMALIZE ${CMAKE_CURRENT_SOURCE_DIR}/${arg_FOLDER})
  set(glob GLOB)
  if(arg_RECURSE)
    set(glob GLOB_RECURSE)
  endif()
  file(${glob} sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  file(${glob} headers CONFIGURE_DEPENDS ${folder}/*.hpp)
  foreach(excluded IN LISTS arg_EXCLUDE)
    if(IS_DIRECTORY ${folder}/${excluded})
      list(FILTER sources EXCLUDE REGEX "/${excluded}/")
    else()
      list(REMOVE_ITEM sources ${folder}/${excluded})
    endif()
  endforeach()

  if(sources)
    set(visibility PUBLIC)
    set(kind STATIC)
    if(arg_OBJECT)
      set(kind OBJECT)
    endif()
    add_library(plait_${name} ${kind} ${sources})
  elseif(headers)
    set(visibility INTERFACE)
    add_library(plait_${name} INTERFACE)
  else()
    return()
  endif()
  target_link_libraries(plait_${name} ${visibility} plait_tree ${arg_LIBS})
  foreach(dependency IN LISTS arg_DEPENDS)
    if(TARGET plait_${dependency})
      target_link_libraries(plait_${name} ${visibility} plait_${dependency})
    endif()
  endforeach()
endfunction()

# plait_link_list(<target> <file>): links the entries of <file>, one per line; '#' starts a comment.
# An entry that ends in .c or .cpp is a source file (relative to the root of the tree), any other a
# target. The file may be missing.
function(plait_link_list target file)
  if(NOT EXISTS ${file})
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} lines)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "#.*" "" line "${line}")
    string(STRIP "${line}" line)
    if(line MATCHES "\\.(c|cpp)$")
      target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/${line})
    elseif(NOT line STREQUAL "")
      target_link_libraries(${target} PRIVATE ${line})
    endif()
  endforeach()
endfunction()

# plait_not_built(<text>): says while configuring, and in the file not_built.txt, which ./dev shows,
# what is left out for want of something on this machine.
set_property(GLOBAL PROPERTY PLAIT_NOT_BUILT "")
function(plait_not_built text)
  message(STATUS "${text}")
  set_property(GLOBAL APPEND_STRING PROPERTY PLAIT_NOT_BUILT "${text}\n")
endfunction()
function(plait_write_not_built)
  get_property(text GLOBAL PROPERTY PLAIT_NOT_BUILT)
  file(WRITE ${PROJECT_BINARY_DIR}/not_built.txt "${text}")
endfunction()

# plait_has_needs(<variable> <file>): whether every target that <file> names, one per line, exists:
# what needs an optional library is left out without it. The file may be missing: nothing is needed.
function(plait_has_needs variable file)
  set(${variable} TRUE PARENT_SCOPE)
  if(NOT EXISTS ${file})
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} targets)
  foreach(target IN LISTS targets)
    if(NOT TARGET ${target})
      plait_not_built("no ${target} here: the tests of ${file} are not built")
      set(${variable} FALSE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()
