#!/usr/bin/env bash
# valgrind.sh BUILD -- a selection of the unit tests, and every small model on three targets, under valgrind's memcheck.
#
# Memcheck sees what AddressSanitizer does not: decisions on memory that nobody wrote.  Machine code that tenon-codegen made is watched
# like any other.  A finding ends with status 99.  Prints `N passed, N failed`; without valgrind it says so and passes.
set -u
cd "$(dirname "$0")/../.." || exit
build=$1
if ! command -v valgrind >/dev/null; then
  echo "skip: valgrind is not installed"
  exit 0
fi
export TEST_EVERY=${TEST_EVERY:-50} RULE_FUZZ=1 GRAPH_FUZZ=5
watch=(valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite --child-silent-after-fork=yes)
passed=0 failed=0
# run NAME COMMAND...: fails on a finding and on a signal; another status is the command's own business.
run() {
  local name=$1 log status
  shift
  log=$(timeout 900 "${watch[@]}" "$@" 2>&1)
  status=$?
  if [ $status = 99 ] || [ $status -gt 4 ]; then
    failed=$((failed + 1))
    printf 'FAIL %s: status %s\n%s\n' "$name" $status "$(tail -n 40 <<<"$log")"
  else
    passed=$((passed + 1))
  fi
}
for f in arena strbuf intmap json zip npy num intexpr file cache plan text import_bad; do
  run "unit tests ${f}_test" "$build/tenon-tests" "${f}_test.*" "${f}_*"
done
for model in tests/models/*.onnx tests/models/*.tir; do
  for target in interp plan cpu; do run "$model for $target" "$build/tenon" run "$model" --target $target --threads 2 --no-cache; done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
