# plait_add_plugin(<name> SOURCES <files>... [LIBS <targets>...] [NO_INSTALL])
#
# Builds plait-<name>.so with hidden visibility, exporting only plait_plugin_v<abi>, with the
# headers of plait::plugin. C and C++20 sources both work. The call is the same inside the tree and
# in a project of your own after find_package(Plait):
#
#   find_package(Plait REQUIRED)
#   plait_add_plugin(layer-mine SOURCES mine.cpp)
#
# The file is installed into <libdir>/plait/plugins-<abi>. In your own project it is built into
# ${PLAIT_PLUGIN_OUTPUT_DIR} if that is set, else beside your other targets. NO_INSTALL builds a
# plugin that the engine does not find by itself. The CMake target is called plait-<name>.
include(GNUInstallDirs)

function(plait_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_INSTALL" "" "SOURCES;LIBS")
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "[plait_add_plugin] plugin '${name}' has no SOURCES; name at least one .c or .cpp file")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "[plait_add_plugin] plugin '${name}': unknown arguments '${arg_UNPARSED_ARGUMENTS}'; "
                        "expected SOURCES, LIBS, NO_INSTALL")
  endif()
  set(target plait-${name})
  add_library(${target} MODULE ${arg_SOURCES})
  set_target_properties(
    ${target}
    PROPERTIES PREFIX ""
               SUFFIX ".so"
               C_VISIBILITY_PRESET hidden
               CXX_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON
               CXX_STANDARD 20
               CXX_STANDARD_REQUIRED ON
               C_STANDARD 11)
  target_link_libraries(${target} PRIVATE plait::plugin ${arg_LIBS})

  set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
  file(WRITE ${script}.new "{\n  global: plait_plugin_v${PLAIT_ABI_VERSION};\n  local: *;\n};\n")
  file(COPY_FILE ${script}.new ${script} ONLY_IF_DIFFERENT)
  target_link_options(${target} PRIVATE -Wl,--version-script=${script} -Wl,--exclude-libs,ALL)
  # clang links sanitizer runtimes only into the executable, so their symbols must stay undefined
  # here.
  if(NOT (CMAKE_C_COMPILER_ID MATCHES "Clang" OR CMAKE_CXX_COMPILER_ID MATCHES "Clang"))
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})

  if(arg_NO_INSTALL)
    set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plugins-aside)
    return()
  endif()
  if(PLAIT_PLUGIN_OUTPUT_DIR)
    set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PLAIT_PLUGIN_OUTPUT_DIR})
  endif()
  # Libraries shipped with a plugin may be in the same folder.
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/plait/plugins-${PLAIT_ABI_VERSION}
                                    COMPONENT plugins)
endfunction()
