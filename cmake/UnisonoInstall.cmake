# What is installed, and where. Two forms:
#   cmake --install          bin/unisono, lib/libunisono.so.N, include/unisono, lib/cmake/unisono (for find_package), lib/pkgconfig
#   the Python wheel         unisono/_core.*.so with libunisono.so beside it, the command among the environment's scripts
# In both, everything finds the library by a path relative to itself, so that a tree can be moved.
include(CMakePackageConfigHelpers)

function(unisono_install_package)
  # Libraries of the 0.x series promise nothing to each other, so the minor number is part of the name that programs look for.
  set_target_properties(unisono PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")  # there the system finds it
    set_target_properties(unisono_command PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  endif()
  install(TARGETS unisono EXPORT unisonoTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
  install(TARGETS unisono_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/unisono
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.hpp")

  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/unisono)
  install(EXPORT unisonoTargets NAMESPACE unisono:: DESTINATION ${package_dir} COMPONENT development)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/unisonoConfig.cmake.in
    ${PROJECT_BINARY_DIR}/unisonoConfig.cmake INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/unisonoConfigVersion.cmake
    VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/unisonoConfig.cmake ${PROJECT_BINARY_DIR}/unisonoConfigVersion.cmake
    DESTINATION ${package_dir} COMPONENT development)

  # For pkg-config.
  set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH prefix_from_here /prefix/${pkgconfig_dir} /prefix)
  string(REGEX REPLACE "/$" "" prefix_from_here ${prefix_from_here})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/unisono.pc.in ${PROJECT_BINARY_DIR}/unisono.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/unisono.pc DESTINATION ${pkgconfig_dir} COMPONENT development)
  if(PROJECT_IS_TOP_LEVEL)
    include(UnisonoDebian)
  endif()
endfunction()

function(unisono_install_wheel)
  # A wheel holds no symbolic links: the library has one plain name.
  set_property(TARGET unisono PROPERTY VERSION)
  set_property(TARGET unisono PROPERTY SOVERSION)
  install(TARGETS unisono LIBRARY DESTINATION unisono COMPONENT python)  # beside _core: bindings/CMakeLists.txt
  find_package(Python REQUIRED COMPONENTS Interpreter)
  # From bin/ to the package: where pip puts it in a virtual environment, in a user's or a system's tree, on Debian, and with --target.
  set(python python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR})
  set(rpath "$ORIGIN/../unisono")
  foreach(place lib/${python}/site-packages lib64/${python}/site-packages lib/${python}/dist-packages)
    list(APPEND rpath "$ORIGIN/../${place}/unisono")
  endforeach()
  set_target_properties(unisono_command PROPERTIES INSTALL_RPATH "${rpath}")
  unisono_old_glibc_program(unisono_command)
  install(TARGETS unisono_command RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
endfunction()

target_compile_features(unisono PUBLIC cxx_std_20)
target_link_options(unisono PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/unisono.map")
set_property(TARGET unisono APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/unisono.map)

if(SKBUILD)
  unisono_install_wheel()
else()
  unisono_install_package()
endif()
