# libplait.so: engine/capi over the static modules. Exports exactly the symbols listed in
# abi/exports.txt.
if(NOT TARGET plait_capi)
  message(STATUS "engine/capi has no sources: no libplait")
  return()
endif()
get_target_property(kind plait_capi TYPE)
if(NOT kind STREQUAL "OBJECT_LIBRARY")
  message(STATUS "engine/capi has no sources: no libplait")
  return()
endif()

set(list ${PROJECT_SOURCE_DIR}/abi/exports.txt)
set(script ${PROJECT_BINARY_DIR}/abi/plait.map)
set(body "")
if(EXISTS ${list})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} symbols REGEX "^plait_[a-z0-9_]+$")
  foreach(symbol IN LISTS symbols)
    string(APPEND body "    ${symbol};\n")
  endforeach()
else()
  string(APPEND body "    plait_*;\n") # no list yet: the prefix
endif()
file(WRITE ${script}.new "{\n  global:\n${body}  local: *;\n};\n")
file(COPY_FILE ${script}.new ${script} ONLY_IF_DIFFERENT)

add_library(plait SHARED)
add_library(plait::plait ALIAS plait)
target_link_libraries(plait PRIVATE plait_capi)
set_target_properties(plait PROPERTIES VERSION ${PLAIT_ABI_VERSION}.${PROJECT_VERSION} SOVERSION ${PLAIT_ABI_VERSION})
target_link_options(plait PRIVATE -Wl,--version-script=${script} -Wl,--exclude-libs,ALL)
if(NOT (PLAIT_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang"))
  target_link_options(plait PRIVATE -Wl,--no-undefined)
endif()
set_property(TARGET plait APPEND PROPERTY LINK_DEPENDS ${script})
target_include_directories(
  plait INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/abi> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/bindings/cpp>
                  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
