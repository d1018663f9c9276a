#!/usr/bin/env bash
# self_test.sh TENON-REPLAY -- kernel replay sees what changed: golden files are changed by hand, and the report must name it.
set -u
cd "$(dirname "$0")/../.."
replay=$1 model=tests/models/past.tir
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0

# expect WHAT STATUS TEXT: the last run ended with the status, and printed a line that has the text.
expect() {
  if [ "$status" = "$2" ] && grep -qE -- "$3" "$folder/out"; then passed=$((passed + 1)); return; fi
  echo "FAIL $1: status $status, expected $2 and '$3' in:"
  cat "$folder/out"
  failed=$((failed + 1))
}

run() {
  "$replay" --golden "$folder" --machine sm_90a "$@" "$model" > "$folder/out" 2>&1
  status=$?
}

# edit SCRIPT: the recorded file, changed by sed.
edit() { sed -E "$1" "$folder/kept" > "$folder/sm_90a.txt"; }

run --update
expect "update" 0 "sm_90a +written"
cp "$folder/sm_90a.txt" "$folder/kept"
run
expect "nothing changed" 0 "as recorded"
edit '0,/^0 [0-9a-f]{8}/s//0 00000000/'
run
expect "loops changed" 1 "sm_90a +past +kernel 0 +loops changed"
edit '0,/^(0 [0-9a-f]{8}) [0-9a-f]{8}/s//\1 00000000/'
run
expect "text changed" 1 "sm_90a +past +kernel 0 +CUDA changed"
edit '0,/^0 [0-9a-f]{8} [0-9a-f]{8}/s//0 00000000 00000000/'
run
expect "both changed" 1 "sm_90a +past +kernel 0 +loops and CUDA changed"
edit '0,/^0 .*$/{/^0 /d}'
run
expect "added" 1 "sm_90a +past +kernel 0 +added"
edit '/^model past /a 77 11111111 22222222 no such kernel'
run
expect "removed" 1 "sm_90a +past +kernel 77 +removed +\(no such kernel\)"
edit '0,/^model past [0-9a-f]{8}/s//model past 00000000/'
run
expect "steps changed" 1 "sm_90a +past +steps changed"
edit '/^0 /s/$/ of another name/'
run
expect "names are not compared" 0 "as recorded"
edit '$a model gone 00000000 1 steps\n0 11111111 22222222 x'
run
expect "another model is left alone" 0 "as recorded"
run --whole
expect "a model that is gone" 1 "sm_90a +gone +removed"
run --show 0
expect "show" 0 "^kernel @kernel "
mkdir "$folder/dump"
run --dump "$folder/dump"
[ -s "$folder/dump/sm_90a.past.0.loop" ] && [ -s "$folder/dump/sm_90a.past.0.cu" ] || status=9
expect "dump" 0 ""
model=$folder/det.tir
cat > "$model" <<'END'
graph @"det"(%x: f32[100, 9, 9]) {
  %r = det(%x)
  return %r
}
END
run --cliffs --update
expect "cliffs: update" 0 "sm_90a +written"
run --cliffs
expect "cliffs: nothing changed" 0 "kernels of more than 4,096 elements"
cp "$folder/sm_90a.txt" "$folder/kept"
edit '/^host +det /d'
run --cliffs
expect "cliffs: more" 1 "sm_90a +MORE: host +det +det"
edit '/^host +det /s/[0-9]+$/9/'
run --cliffs
expect "cliffs: less" 1 "sm_90a +less: host +det +det"
edit '$a lane   elsewhere                        scan                 3'
run --cliffs
expect "cliffs: another model is left alone" 0 "kernels of more than 4,096 elements"
model=$folder/none.tir
run --update
expect "no such model" 1 "none: the process failed"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
