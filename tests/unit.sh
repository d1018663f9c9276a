#!/usr/bin/env bash
# unit.sh PROGRAM [GLOB...] -- the unit tests in JOBS processes (one per core) that share one queue.
#
# Prints what each process printed, the slowest tests of all of them and `N passed, N failed`; a process that died counts as
# one failure.  The processes keep their files in one folder beside PROGRAM, which is removed at the end.
set -u
program=$1
shift
jobs=${JOBS:-$(nproc)}
out=$(mktemp -d "$(cd "$(dirname "$program")" && pwd)/unit-XXXXXX") || exit 1
trap 'rm -rf "$out"' EXIT
export TMPDIR=$out
pids=()
for ((i = 1; i <= jobs; i++)); do
  "$program" --times --queue "$out/queue" "$@" > "$out/log$i" 2>&1 &
  pids+=($!)
done
status=0
for ((i = 1; i <= jobs; i++)); do
  wait "${pids[i - 1]}"
  s=$?
  ((s == 0)) || status=1
  ((s <= 1)) || echo "process $i ended with status $s" >> "$out/log$i"
done
grep -hv '^time ' "$out"/log*
echo "the slowest:"
grep -h '^time ' "$out"/log* | sort -k2 -rn | head -n 25
cat "$out"/log* | awk -v status=$status -v jobs="$jobs" '
  /^[0-9]+ passed, [0-9]+ failed/ { passed += $1; failed += $3; ended++ }
  END { failed += jobs - ended; if (status && !failed) failed = 1; printf "%d passed, %d failed\n", passed, failed; exit failed > 0 }'
