#!/usr/bin/env bash
# replay.sh BUILD [NAME...] -- every input of tests/fuzz/corpus once through its target BUILD/fuzz-NAME.
#
# The corpora are what campaigns found worth keeping, reduced to inputs that together reach all that was reached (minimise.sh).
# Prints how many inputs each target executed, then `N passed, N failed`: a target passes when no input is a finding and all were
# executed.
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
shift
names=("$@")
if [ $# = 0 ]; then
  for f in tests/fuzz/corpus/*.tar.xz; do names+=("$(basename "$f" .tar.xz)"); done
fi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export FUZZ_SECONDS=${FUZZ_SECONDS:-5} ASAN_OPTIONS=${ASAN_OPTIONS:-quarantine_size_mb=16}
passed=0 failed=0 executed=0
for name in "${names[@]}"; do
  if [ "$name" = grpc ] && ! [ -x "$build/fuzz-grpc" ]; then
    echo "fuzz-grpc: SKIP, built without nghttp2"
    continue
  fi
  mkdir "$folder/$name"
  tar -xJf "tests/fuzz/corpus/$name.tar.xz" -C "$folder/$name" || exit 1
  inputs=$(find "$folder/$name" -type f | wc -l)
  # Given files, libFuzzer executes each once, in order, and says so.
  find "$folder/$name" -type f -print0 | xargs -0 "$build/fuzz-$name" -timeout=60 -rss_limit_mb=3072 >"$folder/log" 2>&1
  status=$? ran=$(grep -c '^Executed ' "$folder/log")
  if [ "$status" = 0 ] && [ "$ran" = "$inputs" ] && [ "$inputs" -gt 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL fuzz-$name: status $status"
    tail -n 40 "$folder/log"
  fi
  executed=$((executed + ran))
  printf 'fuzz-%-10s %6d inputs, %6d executed\n' "$name" "$inputs" "$ran"
done
echo "$executed executed"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
