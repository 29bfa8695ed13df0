# cmake --install: a relocatable tree. Components: runtime, plugins, devel.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Plait)

install(DIRECTORY abi/plait DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT devel FILES_MATCHING PATTERN "*.h")
install(DIRECTORY bindings/cpp/plait DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT devel OPTIONAL FILES_MATCHING
        PATTERN "*.hpp")
install(FILES LICENSE README.md GUIDE.md REFERENCE.md abi/plait/OPS.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
set(targets plait_plugin_headers)
if(TARGET plait)
  list(APPEND targets plait)
endif()
install(
  TARGETS ${targets}
  EXPORT PlaitTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT devel)
install(EXPORT PlaitTargets NAMESPACE plait:: DESTINATION ${package_dir} COMPONENT devel)

configure_package_config_file(cmake/PlaitConfig.cmake.in ${PROJECT_BINARY_DIR}/PlaitConfig.cmake
                              INSTALL_DESTINATION ${package_dir} PATH_VARS PLAIT_PLUGIN_INSTALL_DIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/PlaitConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/PlaitConfig.cmake ${PROJECT_BINARY_DIR}/PlaitConfigVersion.cmake
              abi/cmake/PlaitPlugin.cmake DESTINATION ${package_dir} COMPONENT devel)

# Paths in plait.pc are relative to the file itself, so it moves with the tree.
file(RELATIVE_PATH PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" PC_TO_PREFIX ${PC_TO_PREFIX})
configure_file(cmake/plait.pc.in ${PROJECT_BINARY_DIR}/plait.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/plait.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT devel)
