#!/usr/bin/env bash
# threads.sh BUILD [all] -- what uses several threads or processes, under ThreadSanitizer: the pool, sessions, the API, the cache, the
# writer of files, compiling in parallel.  `all`: every unit test of these folders, else the files below with each 4th case of their loops.
#
# First sanitizer-probe makes a race: a build that does not see it proves nothing.
set -u
cd "$(dirname "$0")/../.." || exit
build=$1
env -u ASAN_OPTIONS -u LSAN_OPTIONS -u TSAN_OPTIONS -u UBSAN_OPTIONS "$build/sanitizer-probe" race >/dev/null 2>&1  # its report is no finding
status=$?
if [ $status != 99 ]; then
  echo "threads.sh: the race of sanitizer-probe is not found (status $status)"
  exit 1
fi
files=(workers_test session_threads_test state_test cache_test platform_test artifact_test device_test concurrent_test upgrade_test)
if [ "${2:-}" = all ]; then
  for f in tests/{runtime,api,compile}/*_test.c tests/runtime/*/*_test.c tests/base/*_test.c; do files+=("$(basename "$f" .c)"); done
else
  export TEST_EVERY=${TEST_EVERY:-4}
fi
mapfile -t globs < <(printf '%s.*\n' "${files[@]}" | sort -u)
CSTYLE_LEVEL=-O0 tests/unit.sh "$build/tenon-tests" "${globs[@]}"
