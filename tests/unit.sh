#!/usr/bin/env bash
# unit.sh PROGRAM [GLOB...] -- the unit tests in two processes side by side, and what both passed.
set -u
program=$1
shift
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$program" --queue "$out/queue" "$@" > "$out/1" 2>&1 &
"$program" --queue "$out/queue" "$@" > "$out/2" 2>&1
status=$?
wait $! || status=1
cat "$out/1" "$out/2"
# A part that died has no last line: it counts as one failure.
cat "$out/1" "$out/2" | awk -v status=$status '
  /^[0-9]+ passed, [0-9]+ failed/ { passed += $1; failed += $3; parts++ }
  END { failed += 2 - parts; if (status && !failed) failed = 1; printf "%d passed, %d failed\n", passed, failed; exit failed > 0 }'
