# sanitizers.cmake -- in a build with TENON_SANITIZE: options compiled into every program, and sanitizer-probe, which makes
# faults on purpose (tests/sanitizers).  Included when all programs are declared.
if(TENON_SANITIZE)
  add_executable(sanitizer-probe ${PROJECT_SOURCE_DIR}/tests/sanitizers/probe.c)
  target_compile_options(sanitizer-probe PRIVATE -O0 -w)
  target_link_libraries(sanitizer-probe PRIVATE tenon_flags)
  get_property(targets DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/sanitizers/options.c)
    endif()
  endforeach()
endif()
