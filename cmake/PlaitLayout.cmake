# The folders of the build tree, equal to those of an installed one, so that the engine finds the
# plugins beside itself in both.
set(PLAIT_PLUGIN_SUBDIR plait/plugins-${PLAIT_ABI_VERSION})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(PLAIT_PLUGIN_OUTPUT_DIR ${PROJECT_BINARY_DIR}/lib/${PLAIT_PLUGIN_SUBDIR})
set(PLAIT_PLUGIN_INSTALL_DIR ${CMAKE_INSTALL_LIBDIR}/${PLAIT_PLUGIN_SUBDIR})

# Private modules see the whole tree; tests/structure checks the allowed includes.
add_library(plait_tree INTERFACE)
target_include_directories(plait_tree INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/abi
                                                ${PROJECT_SOURCE_DIR}/bindings/cpp)
target_compile_definitions(plait_tree INTERFACE PLAIT_VERSION="${PROJECT_VERSION}")

# The target for plugin authors: headers, and nothing to link.
add_library(plait_plugin_headers INTERFACE)
add_library(plait::plugin ALIAS plait_plugin_headers)
set_target_properties(plait_plugin_headers PROPERTIES EXPORT_NAME plugin)
target_include_directories(
  plait_plugin_headers INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/abi>
                                 $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/bindings/cpp>
                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
