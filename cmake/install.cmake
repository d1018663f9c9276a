# install.cmake -- what `make install` puts where.
#
# Nothing installed holds the prefix, so that the tree can be moved.  The manual pages and the completions are
# written by the program itself from its option table.
if(NOT TENON_SANITIZE)
  install(TARGETS tenon_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${CMAKE_BINARY_DIR}/libtenon.a ${CMAKE_BINARY_DIR}/libtenon_runtime.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/include/tenon/tenon.h ${PROJECT_SOURCE_DIR}/include/tenon/aot.h
    ${PROJECT_SOURCE_DIR}/include/tenon/tenon.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tenon)

  # Both files find the prefix from where they lie.
  file(RELATIVE_PATH tenon_up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" tenon_up "${tenon_up}")
  configure_file(cmake/tenon.pc.in tenon.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/tenon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

  include(CMakePackageConfigHelpers)
  set(tenon_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tenon)
  configure_package_config_file(cmake/tenonConfig.cmake.in tenonConfig.cmake
    INSTALL_DESTINATION ${tenon_cmake_dir} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR
    NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  # Before 1.0 a minor version may break what is built on it.
  write_basic_package_version_file(tenonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/tenonConfig.cmake ${CMAKE_BINARY_DIR}/tenonConfigVersion.cmake
    DESTINATION ${tenon_cmake_dir})

  install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

  install(TARGETS tenon-serve RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(TARGET tenon-tune)
    install(TARGETS tenon-tune RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
  endif()
  if(TARGET tenon-codegen)
    install(TARGETS tenon-codegen RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
  install(FILES docs/man/tenon.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
  if(TARGET tenon_cli)
    install(TARGETS tenon_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    set(completions "bash|${CMAKE_INSTALL_DATADIR}/bash-completion/completions|tenon"
      "zsh|${CMAKE_INSTALL_DATADIR}/zsh/site-functions|_tenon"
      "fish|${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d|tenon.fish")
    # One manual page for the program and one for each command, whose rows are in the option table.
    file(STRINGS src/cli/options.def command_rows REGEX "^CMD\\(")
    set(commands "")
    foreach(row ${command_rows})
      string(REGEX REPLACE "^CMD\\(([a-z_]+),.*" "\\1" command "${row}")
      string(REPLACE "_" "-" command "${command}")
      list(APPEND commands ${command})
    endforeach()
    install(CODE "
      set(commands \"${commands}\")
      set(program \"${CMAKE_BINARY_DIR}/tenon\")
      set(root \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
      set(completions \"${completions}\")
      set(mandir \"${CMAKE_INSTALL_MANDIR}\")
      include(\"${PROJECT_SOURCE_DIR}/cmake/generated.cmake\")")
  endif()
endif()
