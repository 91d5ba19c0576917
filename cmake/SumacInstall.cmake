# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

set(sumac_targets sumac_static)
if(SUMAC_SHARED)
  list(APPEND sumac_targets sumac)
endif()
install(TARGETS ${sumac_targets} EXPORT sumacTargets)
install(DIRECTORY include/sumac TYPE INCLUDE)
install(FILES LICENSE README.md TYPE DOC)

# find_package(sumac)
set(sumac_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sumac)
install(EXPORT sumacTargets NAMESPACE sumac:: DESTINATION ${sumac_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sumacConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES cmake/sumacConfig.cmake ${PROJECT_BINARY_DIR}/sumacConfigVersion.cmake
  DESTINATION ${sumac_cmake_dir})

# pkg-config. The prefix is found from the place of the file, because `cmake --install --prefix` comes
# after this is written.
set(sumac_pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH SUMAC_PC_PREFIX ${sumac_pc_dir} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" SUMAC_PC_PREFIX "${SUMAC_PC_PREFIX}")
cmake_path(APPEND SUMAC_PC_LIBDIR "\${prefix}" ${CMAKE_INSTALL_LIBDIR})
cmake_path(APPEND SUMAC_PC_INCLUDEDIR "\${prefix}" ${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/sumac.pc.in sumac.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sumac.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
