# llvm.cmake -- finds LLVM 19's C interface: sets TENON_LLVM_VERSION and the target tenon_llvm, or says what is missing.
#
# TENON_LLVM_STATIC links it into the program, which then needs no LLVM where it is installed; the shared library is the
# default, as it links in a second.  Of the static archives only what the program reaches is kept.  TENON_SYSROOT has the archives
# of another machine (packaging/sysroot.sh); their names are those that llvm-config of this machine says, whose version is the same.
option(TENON_LLVM_STATIC "Link LLVM into tenon-codegen" OFF)
set(TENON_SYSROOT "" CACHE PATH "Folder with Debian packages of another machine, for TENON_LLVM_STATIC")
find_program(LLVM_CONFIG NAMES llvm-config-19 llvm-config)
set(TENON_LLVM_VERSION "")
if(LLVM_CONFIG)
  execute_process(COMMAND ${LLVM_CONFIG} --version OUTPUT_VARIABLE llvm_version OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND ${LLVM_CONFIG} --includedir OUTPUT_VARIABLE llvm_include OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(llvm_version MATCHES "^19\\." AND EXISTS ${llvm_include}/llvm-c/Core.h)
    set(TENON_LLVM_VERSION ${llvm_version})
  endif()
endif()
if(TENON_LLVM_VERSION)
  add_library(tenon_llvm INTERFACE)
  target_include_directories(tenon_llvm SYSTEM INTERFACE ${llvm_include})
  if(TENON_LLVM_STATIC)
    find_program(TENON_LLD ld.lld REQUIRED)
    # Of LLVM's system libraries (zstd, zlib, libxml2, z3) the object writer reaches the first two alone.
    execute_process(COMMAND ${LLVM_CONFIG} --libdir OUTPUT_VARIABLE llvm_libdir OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND ${LLVM_CONFIG} --link-static --libs x86codegen aarch64codegen riscvcodegen passes
      OUTPUT_VARIABLE llvm_libs OUTPUT_STRIP_TRAILING_WHITESPACE)
    separate_arguments(llvm_libs UNIX_COMMAND "${llvm_libs}")
    set(compat "")
    if(TENON_GLIBC_STUBS)
      add_library(glibc_compat STATIC ${PROJECT_SOURCE_DIR}/packaging/glibc_compat.c)
      target_compile_options(glibc_compat PRIVATE -Wno-deprecated-declarations)  # mallinfo
      set(compat glibc_compat)
    endif()
    target_link_directories(tenon_llvm INTERFACE ${TENON_SYSROOT}${llvm_libdir})
    if(TENON_SYSROOT)  # zstd, libstdc++
      set(debian_libdir ${TENON_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
      file(GLOB gcc_libdir ${TENON_SYSROOT}/usr/lib/gcc/${CMAKE_LIBRARY_ARCHITECTURE}/*)
      target_link_directories(tenon_llvm INTERFACE ${debian_libdir} ${gcc_libdir})
    endif()
    target_link_libraries(tenon_llvm INTERFACE ${llvm_libs} -Wl,-Bstatic -lzstd -lstdc++ -Wl,-Bdynamic ${compat} -ldl -lm)
    # At a fixed address it starts in a third of the time, as there is nothing to relocate, and is a tenth smaller.
    target_link_options(tenon_llvm INTERFACE -fuse-ld=lld -static-libgcc -no-pie
      -Wl,-O2,--gc-sections,--icf=all,--ignore-data-address-equality,--build-id=sha1
      -Wl,--no-eh-frame-hdr,-T,${PROJECT_SOURCE_DIR}/cmake/static.ld)
  else()
    execute_process(COMMAND ${LLVM_CONFIG} --link-shared --ldflags --libs --system-libs
      OUTPUT_VARIABLE llvm_libs OUTPUT_STRIP_TRAILING_WHITESPACE)
    separate_arguments(llvm_libs UNIX_COMMAND "${llvm_libs}")
    target_link_libraries(tenon_llvm INTERFACE ${llvm_libs})
  endif()
else()
  message(STATUS "LLVM 19 (llvm-19-dev) is not there: tenon-codegen is not built, and nothing can be compiled for CPUs")
endif()
