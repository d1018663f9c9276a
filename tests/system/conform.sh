#!/usr/bin/env bash
# conform.sh PROGRAM MIN [OPTION...] SUITE... -- runs conformance suites: nothing wrong, nothing crashed, at least MIN passed.
#
# MIN is what passes today, so that a test that is refused from one day to the next is noticed.  An archive is unpacked once
# for all steps (tests/system/suite.sh).
set -u
program=$1 min=$2
shift 2
args=()
for arg in "$@"; do
  case $arg in *.tar.xz) arg=$(tests/system/suite.sh "$arg") || exit 1 ;; esac
  args+=("$arg")
done
out=$("$program" conform --jobs "${JOBS:-2}" "${args[@]}" 2>&1)
status=$?
printf '%s\n' "$out"
last=$(printf '%s\n' "$out" | tail -n 1)
if ! [[ $last =~ ^[0-9]+\ tests:\ ([0-9]+)\ passed,\ ([0-9]+)\ wrong,\ ([0-9]+)\ unsupported,\ ([0-9]+)\ crashed$ ]]; then
  echo "conform.sh: the last line is not a count (exit status $status)"
  exit 1
fi
passed=${BASH_REMATCH[1]} failed=$((BASH_REMATCH[2] + BASH_REMATCH[4]))
if ((passed < min)); then
  echo "conform.sh: $passed passed, the bar is $min"
  failed=$((failed + min - passed))
fi
echo "$passed passed, $failed failed"
((failed == 0))
