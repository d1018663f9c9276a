// options.c -- what the sanitizers of a test build do by default.  Linked into every program of a
// build with TENON_SANITIZE.
//
// A finding ends the program with status 99.  Tenon's own statuses are 0 to 4, so a test that
// expects a refusal cannot take a finding for one.  The environment (ASAN_OPTIONS and so on)
// overrides single options; tests/run.py adds `log_path`, so that it sees a report even when nobody
// looks at the program's status.
#define OPTIONS "exitcode=99:abort_on_error=0:print_stacktrace=1:allocator_may_return_null=1"

// The names are the sanitizers' own, looked up when the program starts.
#define DEFAULTS(function, text)                                                                   \
  const char *function(void);                                                                      \
  __attribute__((visibility("default"), used)) const char *function(void) { return text; }

// Without intercept_tls_get_addr=0 the leak check scans dynamic thread-local blocks, whose size
// clang 14 guesses from the 16 bytes in front of any block that begins 16 bytes into a page.  Those
// are a chunk header of the allocator, so that it now and then read unmapped memory ("Tracer caught
// signal 11").  Our own thread-local variables are static ones, which it knows.
DEFAULTS(__asan_default_options, OPTIONS ":detect_leaks=1:intercept_tls_get_addr=0")
DEFAULTS(__lsan_default_options, OPTIONS)
DEFAULTS(__ubsan_default_options, OPTIONS ":halt_on_error=1")
// Tests start threads in a forked process, which ThreadSanitizer by itself would end.
DEFAULTS(__tsan_default_options,
         OPTIONS ":halt_on_error=1:second_deadlock_stack=1:die_after_fork=0")

// What an OpenCL driver (C++, with a compiler inside) still holds at the end is not ours.  Its
// frames are cut short, so the allocator it uses is all there is to tell it by.
DEFAULTS(__lsan_default_suppressions, "leak:libLLVM\nleak:libpocl\nleak:libstdc++\n")
