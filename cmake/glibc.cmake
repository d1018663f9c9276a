# glibc.cmake -- TENON_GLIBC_STUBS: links against the stub libraries of an older glibc, so that what is built runs there.
#
# The folder is one that packaging/glibc-stubs.sh made.  -B lets the compiler find crt1.o of that glibc: one of glibc 2.34 or later
# leaves the calls of constructors to a libc that an older system does not have.  Compiling is not changed: what a newer header
# or an archive of this machine (LLVM, libstdc++) asks for beyond the old glibc is in packaging/glibc_compat.c, or fails to link.
set(TENON_GLIBC_STUBS "" CACHE PATH "Folder with stub libraries of the oldest glibc to run with (packaging/glibc-stubs.sh)")
if(TENON_GLIBC_STUBS)
  if(NOT EXISTS ${TENON_GLIBC_STUBS}/libc.so.6)
    message(FATAL_ERROR "TENON_GLIBC_STUBS: no libc.so.6 in ${TENON_GLIBC_STUBS}: packaging/glibc-stubs.sh makes it")
  endif()
  add_link_options(-B${TENON_GLIBC_STUBS} -L${TENON_GLIBC_STUBS})
endif()
