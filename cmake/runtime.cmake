# The runtime archive: what a program needs that has its model inside (tenon/aot.h), and nothing of the compiler or of devices.  Each
# file is a member of its own, and so is each row of the table of evaluations, so that only what is used is linked; all
# its names but tenon_* get a prefix, so that they cannot clash with the program's.
file(GLOB runtime_src CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/base/*.c ${PROJECT_SOURCE_DIR}/src/eval/*.c
  ${PROJECT_SOURCE_DIR}/src/runtime/*.c ${PROJECT_SOURCE_DIR}/src/runtime/aot/*.c)
list(FILTER runtime_src EXCLUDE REGEX "/(zip|zipwrite|zipcrc|npz|json|cache|artifact_open|device[a-z_]*)\\.c$")
add_library(tenon_runtime_objects OBJECT ${runtime_src})
target_link_libraries(tenon_runtime_objects PRIVATE tenon_flags)
target_compile_options(tenon_runtime_objects PRIVATE -ffunction-sections -fdata-sections)
set(runtime_archive ${CMAKE_BINARY_DIR}/libtenon_runtime.a)
add_custom_command(OUTPUT ${runtime_archive}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${runtime_archive}
  COMMAND ${CMAKE_AR} qcs ${runtime_archive} "$<FILTER:$<TARGET_OBJECTS:tenon_runtime_objects>,EXCLUDE,aot/rows>"
  COMMAND ${PROJECT_SOURCE_DIR}/cmake/split.sh ${CMAKE_LINKER} ${CMAKE_NM} ${CMAKE_OBJCOPY} ${CMAKE_AR}
    "$<FILTER:$<TARGET_OBJECTS:tenon_runtime_objects>,INCLUDE,aot/rows>" ${runtime_archive}
  COMMAND ${PROJECT_SOURCE_DIR}/cmake/prefix.sh ${CMAKE_NM} ${CMAKE_OBJCOPY} ${runtime_archive}
  DEPENDS tenon_runtime_objects $<TARGET_OBJECTS:tenon_runtime_objects> ${PROJECT_SOURCE_DIR}/cmake/prefix.sh ${PROJECT_SOURCE_DIR}/cmake/split.sh
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR} COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(tenon_runtime ALL DEPENDS ${runtime_archive})
