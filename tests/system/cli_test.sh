#!/usr/bin/env bash
# cli_test.sh [PROGRAM] -- the command line: exit statuses, messages, help and completions of every command, array files.
set -u
cd "$(dirname "$0")/../.."
program=$(realpath "${1:-build/tenon}")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

# expect STATUS PATTERN ARGS...: the program's exit status, and a text in what it prints on either stream.
expect() {
  local want=$1 pattern=$2
  shift 2
  local out status
  out=$("$program" "$@" 2>&1)
  status=$?
  if [ $status = "$want" ] && [[ $out == *"$pattern"* ]]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAIL tenon %s\n  status %s, expected %s; expected text: %s\n%s\n' "$*" $status "$want" "$pattern" "$out" | head -n 20
  fi
}
# check NAME COMMAND...: the command succeeds.
check() {
  local name=$1
  shift
  if "$@" >"$tmp/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $name"; head -n 20 "$tmp/log"; fi
}
json_ok() { "$program" "$@" | python3 -m json.tool; }
# --help has every option but those for work on the compiler, --help-all and the completion have all.
help_levels() {
  python3 - "$program" <<'END'
import json, re, subprocess, sys
run = lambda *words: subprocess.run([sys.argv[1], *words], capture_output=True, text=True, check=True).stdout
names = lambda text: set(re.findall(r"^ +(?:-., )?--([a-z-]+)", text, re.M)) - {"help"}
completion, experts = run("completion", "bash"), 0
for c in json.loads(run("help", "--json"))["commands"]:
    every = {o["name"] for o in c["options"]}
    expert = {o["name"] for o in c["options"] if o["expert"]}
    experts += len(expert)
    assert names(run(c["name"], "--help-all")) == every, (c["name"], every ^ names(run(c["name"], "--help-all")))
    assert names(run(c["name"], "--help")) == every - expert, (c["name"], names(run(c["name"], "--help")) ^ (every - expert))
    words = re.search(r"\n    %s\)\n.*?opts='(.*?)'" % c["name"], completion, re.S)[1].split()
    assert {"--" + name for name in every} <= set(words), (c["name"], words)
assert experts > 20, experts
END
}

# ---- usage ----
expect 0 "tenon 0." --version
expect 0 "usage: tenon COMMAND" --help
expect 2 "usage: tenon COMMAND"
expect 2 "did you mean 'run'?" rnu
expect 2 "lists the commands" frobnicate
expect 2 "did you mean '--inputs'?" run m --inptus x
expect 2 "did you mean '--json'?" inspect m --jsn
expect 2 "MODEL is missing" run
expect 2 "one argument too many: 'b'" inspect a b
expect 2 "needs a value" run m --output
expect 2 "takes no value" run m --json=1
expect 2 "whole number from 0 to 4096" run m --threads many
expect 2 "not negative" run m --rtol -1
expect 2 "it is one of" run m --target quantum
expect 2 "there are bash, zsh and fish" completion tcsh
expect 2 "unknown command 'nope'" help nope
expect 1 "cannot open" run "$tmp/none.onnx"
for command in run inspect explain verify conform ops passes graph convert doctor completion help; do
  expect 0 "tenon $command -- " $command --help
  expect 0 "tenon $command -- " help $command
  expect 0 ".SH NAME" help --man $command
done
check "--help and --help-all" help_levels
check "compile --help has at most 60 lines" test "$("$program" compile --help | wc -l)" -le 60
expect 0 "TENON_CACHE_PATH=" help environment
expect 0 "--trace-rules" help compile --all
expect 2 "did you mean '--help-all'?" compile --help-al
# What config prints compiles and links a program, in a build and installed (install_test.sh).
cat >"$tmp/config.c" <<'END'
#include <tenon/tenon.h>
int main(void) { return tenon_version()[0] == 0; }
END
# A library with sanitizers links only with theirs, and a build of them has no libtenon_runtime.a.
links_plainly() { command -v cc >/dev/null && [ -e "$(dirname "$program")/$1" ] && [ -e "$(dirname "$program")/libtenon_runtime.a" ]; }
if links_plainly libtenon.so; then
  # shellcheck disable=SC2046
  check "a program by tenon config" cc "$tmp/config.c" $("$program" config --cflags --libs) -o "$tmp/config"
  check "which runs" "$tmp/config"
fi
# The link line that compile prints links a program.
links() {
  (cd "$tmp" && echo 'int main(void) { return 0; }' >main.c && cp "$tmp/linked.tir" m.tir &&
    line=$("$program" compile m.tir -o "$1" --force | sed -n 's/^link: //p') && [ -n "$line" ] && sh -c "$line -o linked" && ./linked)
}
printf 'graph @"g"(%%x: f32[4]) {\n  %%y = exp(%%x)\n  return %%y\n}\n' >"$tmp/linked.tir"
if links_plainly tenon-codegen; then
  for name in linked.o linked.so linked.c; do check "the link line of $name" links $name; done
fi
printf 'graph @"g"(%%x: f32[batch, 3, h, w]) {\n  %%y = relu(%%x)\n  return %%y\n}\n' >"$tmp/image.tir"
expect 0 "assumed: batch = 1, h = 224, w = 224" inspect "$tmp/image.tir"
check "on a line of its own" sh -c "'$program' inspect '$tmp/image.tir' | grep -q '^dimensions  assumed'"
expect 0 "dimensions  h = 32; assumed: batch = 1, w = 224" inspect "$tmp/image.tir" --dim h=32
expect 0 "l.html: 1 node, " graph "$tmp/linked.tir" -o "$tmp/l.html"
expect 0 ".TH TENON 1" help --man
expect 0 "# Command line" help --markdown
for shell in bash zsh fish; do
  expect 0 "tenon" completion $shell
  "$program" completion $shell >"$tmp/completion.$shell"
  if command -v $shell >/dev/null; then check "$shell parses its completion" $shell -n "$tmp/completion.$shell"; fi
done
words=$(bash -c "source '$tmp/completion.bash'; COMP_WORDS=(tenon run --in); COMP_CWORD=2; _tenon; echo \${COMPREPLY[*]}")
check "bash completes options" [ "$words" = "--inputs --input" ]
words=$(bash -c "source '$tmp/completion.bash'; COMP_WORDS=(tenon ins); COMP_CWORD=1; _tenon; echo \${COMPREPLY[*]}")
check "bash completes commands" [ "$words" = "inspect" ]
check "doctor --json is JSON" json_ok doctor --json
if [ -x "$(dirname "$program")/tenon-codegen" ]; then expect 0 "tenon-codegen  seccomp" doctor; fi
check "ops --json is JSON" json_ok ops --json
expect 0 "Relu" ops relu
expect 0 "# Operators" ops --markdown
expect 1 "no operator" ops 'nothing*'

# ---- models: the text form is a model, too ----
cat >"$tmp/m.tir" <<'TIR'
graph @"m"(%x: f32[n, 4], %i: i64[n]) -> (y: f32[n, 4], "j/k:0": i64[n]) {
  %y = relu(%x) : f32[n, 4]
  return %y, %i
}
TIR
expect 0 "f32[n, 4]" inspect "$tmp/m.tir"
expect 0 "graph @" inspect "$tmp/m.tir" --text
check "inspect --json is JSON" json_ok inspect "$tmp/m.tir" --json --ops
expect 0 "f32[1, 4]" run "$tmp/m.tir"
expect 0 "f32[3, 4]" run "$tmp/m.tir" --dim n=3
expect 2 "did you mean 'n'?" run "$tmp/m.tir" --dim m=3
expect 0 "f32[3, 4]" run "$tmp/m.tir" --fix n=3
expect 0 "f32[3, 4]" run "$tmp/m.tir" --fix n=3 --target cpu --compare interp
expect 2 "has no symbolic dimension 'm'" run "$tmp/m.tir" --fix m=3
expect 2 "takes NAME=N" compile "$tmp/m.tir" --fix n -o "$tmp/m.tenon"
expect 2 "takes NAME=N" run "$tmp/m.tir" --dim n=-1
check "run --json is JSON" json_ok run "$tmp/m.tir" --json
expect 0 "ok" verify "$tmp/m.tir"
check "verify --json is JSON" json_ok verify "$tmp/m.tir" --json
cat >"$tmp/zero.tir" <<'TIR'
graph @"zero"(%x: i64[3], %u: f32[n]) -> (y: i64[3]) {
  %d = const i64[3] {1, 0, 2}
  %y = div(%x, %d) : i64[3]
  return %y
}
TIR
expect 1 "error T0203  node 'y' (div): 1 of 3 elements of the divisor is 0" verify "$tmp/zero.tir"
expect 1 "warning T0101  input 'u'" verify "$tmp/zero.tir"
expect 0 "warning T0101  input 'u'" inspect "$tmp/zero.tir"
check "findings are in the JSON" bash -c "'$program' verify --json '$tmp/zero.tir' | grep -q '\"code\": \"T0203\"'"
expect 0 "T0304" verify --codes
expect 0 "# Diagnostics" verify --codes --markdown
check "verify --codes --json is JSON" json_ok verify --codes --json
expect 2 "MODEL is missing" verify
expect 2 "takes no model" verify --codes "$tmp/m.tir"
expect 0 "64*floor((n + 3)/4) bytes" inspect "$tmp/m.tir"
check "the model comes from standard input" bash -c "'$program' run - < '$tmp/m.tir'"
# ---- the optimiser ----
expect 0 "group nodes into kernels" passes
check "passes --json is JSON" json_ok passes --json
expect 0 "rows of the register tile (1..64)" templates gemm
expect 0 "winograd: Winograd 3x3 convolution" templates
expect 2 "unknown template 'gem'" templates gem
check "templates --json is JSON" json_ok templates --json
expect 0 "f32[3, 4]" run "$tmp/m.tir" --dim n=3 --target plan
expect 0 "f32[3, 4]" run "$tmp/m.tir" --dim n=3 --target plan -O0
expect 0 "kernels     " inspect "$tmp/m.tir" --optimised
expect 0 '"kernels": ' inspect "$tmp/m.tir" --optimised --json
expect 0 "= fused(" inspect "$tmp/m.tir" --optimised --text
expect 0 "// after fuse-kernels" inspect "$tmp/m.tir" --optimised --dump-after fuse-kernels
expect 0 "// after fuse-kernels" inspect "$tmp/m.tir" --optimised --dump-changed --verify-each
expect 0 "fuse-kernels " inspect "$tmp/m.tir" --optimised --time-passes
expect 0 "relu" explain "$tmp/m.tir" --rule-stats --trace-rules
expect 0 "kernel 0 (pointwise)" explain "$tmp/m.tir" --node y
check "explain --json is JSON" json_ok explain "$tmp/m.tir" --json
check "graph --optimised --json is JSON" json_ok graph "$tmp/m.tir" --optimised --json --dim n=3
expect 2 "no dimension 'q'" graph "$tmp/m.tir" --optimised --json --dim q=3
hex=$(printf '0000803f%.0s' $(seq 256))
cat >"$tmp/conv.tir" <<TIR
graph @"c"(%x: f32[n, 16, 32, 32]) -> (y: f32[n, 16, 1, 1]) {
  %w = const f32[16, 16, 1, 1] hex"$hex"
  %c = conv(%x, %w) : f32[n, 16, 32, 32]
  %d = conv(%c, %w) : f32[n, 16, 32, 32]
  %y = global_average_pool(%d) : f32[n, 16, 1, 1]
  return %y
}
TIR
expect 0 "channels last       3" explain "$tmp/conv.tir"
expect 0 "1 value needed in both orders" explain "$tmp/conv.tir"
expect 0 '"deciding_nodes": 2' explain "$tmp/conv.tir" --json
cat > "$tmp/chain.tir" <<'END'
graph(%x: f32[1, 8, 8, 4]) {
  %d = const f32[1, 1, 1, 4] {1, 2, 3, 4}
  %p = const f32[1, 1, 4, 2] {1, 2, 3, 4, 5, 6, 7, 8}
  %y = conv(%x, %d) channels_last=true group=4
  %z = conv(%y, %p) channels_last=true
  return %z
}
END
expect 0 "joined        0.0% more work  z" explain "$tmp/chain.tir"
expect 0 '"taken_in": true' explain "$tmp/chain.tir" --json
expect 0 "3 nodes channels last; 1 conversion, 128 KiB" inspect "$tmp/conv.tir" --optimised --dim n=2
expect 0 '"conversions": 1' inspect "$tmp/conv.tir" --optimised --json
expect 0 '"channels_last_nodes": 0' inspect "$tmp/conv.tir" --optimised --json --disable choose-layout
expect 0 "channels_last=true" inspect "$tmp/conv.tir" --optimised --text
expect 0 "f32[2, 16, 1, 1]" run "$tmp/conv.tir" --dim n=2 --target plan
expect 2 "there is no pass 'none'" inspect "$tmp/m.tir" --optimised --disable none
expect 2 "there is no pass 'none'" run "$tmp/m.tir" --target plan --stop-after none
printf 'graph @"h"(%%x: f32[4]) -> (y: f32[4]) {\n  %%c = const f32[] {4}\n  %%a = div(%%x, %%c) @"\\x1b[2J\\ny" : f32[4]\n  return %%a\n}\n' > "$tmp/names.tir"
expect 0 "mul(" inspect "$tmp/names.tir" --optimised --text --disable fuse-kernels --stop-after fuse-kernels
expect 0 "div(" inspect "$tmp/names.tir" --optimised --text --bisect 0
expect 0 "mul(" inspect "$tmp/names.tir" --optimised --text --bisect 1
expect 0 "div(" inspect "$tmp/names.tir" --optimised --text --disable fold-constants --stop-after fold-constants
expect 2 "no pass runs from 'fuse-kernels' to 'fold-control-flow'" inspect "$tmp/m.tir" --optimised --start-from fuse-kernels --stop-after fold-control-flow
# A pass that breaks leaves the graph that it was given: the signal comes while it waits to print a dump that nobody reads yet.
python3 - "$tmp/deep.tir" <<'PY'
import sys
steps = [f"  %n{i} = {'exp' if i % 2 else 'neg'}(%{f'n{i - 1}' if i else 'x'})" for i in range(4000)]
open(sys.argv[1], "w").write('graph @"deep"(%x: f32[4]) -> (y: f32[4]) {\n' + "\n".join(steps) + "\n  return %n3999\n}\n")
PY
mkfifo "$tmp/fifo"
exec 9<>"$tmp/fifo"
"$program" inspect "$tmp/deep.tir" --optimised --dump-after all >/dev/null 2>"$tmp/fifo" 9<&- &
pid=$!
for ((asleep = 0; asleep < 5;)); do
  sleep 0.1
  if [ "$(awk '{print $3}' "/proc/$pid/stat" 2>/dev/null || echo S)" = S ]; then asleep=$((asleep + 1)); else asleep=0; fi
done
kill -SEGV $pid
timeout 60 cat <&9 >"$tmp/broken" &
reader=$!
wait $pid
sleep 0.2
kill $reader
exec 9<&-
check "what a broken pass says" grep -q "pass recognise-recurrent broke; the graph that it was given is in" "$tmp/broken"
expect 0 "kernels     42" inspect --optimised --start-from recognise-recurrent "$tmp/deep.tir.recognise-recurrent.tir"
expect 2 "exclude one another" inspect "$tmp/m.tir" --optimised --exact --fast
expect 2 "exclude one another" run "$tmp/m.tir" --exact --precision bf16
expect 2 "it is f32, tf32, bf16 or f16" run "$tmp/m.tir" --precision f8
expect 2 "target cpu has no tensor cores for it; it takes f32 or bf16" run "$tmp/m.tir" --target cpu --precision tf32
expect 2 "no convolution or matrix product has such a name" run examples/digits/digits.onnx --precision bf16 --keep 'no such node'
expect 2 "keep needs --precision bf16 or f16" run "$tmp/m.tir" --keep '*'
# What a target says of itself reaches passes here, too: one with thread blocks keeps depthwise convolutions in bf16.
cat >"$tmp/depthwise.tir" <<'END'
graph @"g"(%x: f32[1, 2, 8, 8]) {
  %w = const f32[2, 1, 3, 3] {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1}
  %y = conv(%x, %w) group=2
  return y = %y
}
END
expect 0 "made here" verify --precision bf16 examples/digits/digits.onnx
expect 0 ": 0 contractions in bf16" verify --precision bf16 "$tmp/depthwise.tir"
TENON_BLOCK_THREADS=64 expect 0 ": 1 contractions in bf16" verify --precision bf16 "$tmp/depthwise.tir"
expect 0 "mul(" inspect "$tmp/names.tir" --optimised --text --fold-limit 1M
expect 2 "from 0 up, as 500, 20M or 4G" inspect "$tmp/names.tir" --optimised --fold-limit much
expect 0 "?[2J?y" explain "$tmp/names.tir"
expect 0 "'?[2J?y' => mul" inspect "$tmp/names.tir" --optimised --trace-rules
expect 2 "it is one of" run "$tmp/m.tir" --target none
expect 2 "from 0 to 3" inspect "$tmp/m.tir" -O4
expect 2 "has no input 'z'" run "$tmp/m.tir" --input z=a.npy
expect 1 "cannot open" run "$tmp/m.tir" --input x="$tmp/none.npy"
printf 'graph @"m"(%%"x\\x1b[31m": f32[2]) -> ("y\\x1b[2J\\nz": f32[2]) {\n  %%y = relu(%%"x\\x1b[31m") : f32[2]\n  return %%y\n}\n' >"$tmp/esc.tir"
for command in "run" "inspect" "inspect --ops" "verify"; do
  check "$command cleans names" bash -c "'$program' $command '$tmp/esc.tir' > '$tmp/esc.out' && ! grep -q $'\\033' '$tmp/esc.out'"
done
expect 0 "y?[2J?z  f32[2]" run "$tmp/esc.tir"

# ---- what a run lets pass and verify does not: y = op(x), x f32[2] ----
python3 - "$tmp" <<'PY'
import sys
field = lambda n, b: bytes([n << 3 | 2, len(b)]) + b
value = lambda name, size: field(1, name) + field(2, field(1, b"\x08\x01" + field(2, field(1, b"\x08" + bytes([size])))))
def model(name, op, size, domain=b""):
    node = field(1, b"x") + field(2, b"y") + field(4, op) + (field(7, domain) if domain else b"")
    graph = field(1, node) + field(11, value(b"x", 2)) + field(12, value(b"y", size))
    open(f"{sys.argv[1]}/{name}.onnx", "wb").write(b"\x08\x08" + field(7, graph) + field(8, b"\x10\x11"))
model("right", b"Relu", 2)
model("shape", b"Relu", 3)
model("domain", b"Gelu", 2, b"com.microsoft")
PY
expect 0 "ok" verify "$tmp/right.onnx"
expect 0 "is declared f32[3], but the graph computes f32[2]" verify "$tmp/shape.onnx"
expect 0 "f32[2]" run "$tmp/shape.onnx"
expect 0 "imports no operator set 'com.microsoft', of which it uses Gelu" verify "$tmp/domain.onnx"
expect 0 "warning: the model imports no" inspect "$tmp/domain.onnx"
expect 0 "f32[2]" run "$tmp/domain.onnx"

# ---- limits: a loop that never ends, and growing values ----
cat >"$tmp/forever.tir" <<'TIR'
graph @"forever"(%x: f32[4]) -> (y: f32[?d_0]) {
  %y = loop(_, _, %x) captures=0 body={ (%i: i64[], %go: bool[], %v: f32[?v_1])
    %yes = const bool[] {true}
    %w = relu(%v) : f32[?v_1]
    return %yes, %w
  } : f32[?d_0]
  return %y
}
TIR
sed 's/relu(%v) : f32\[?v_1\]/concat(%v, %v) : f32[2*?v_1]/' "$tmp/forever.tir" >"$tmp/grow.tir"
expect 1 "the limit on loop iterations is reached" run "$tmp/forever.tir" --max-iterations 10K
expect 1 "operations" run "$tmp/forever.tir" --max-ops 100K
expect 1 "memory" run "$tmp/grow.tir" --max-memory 1M
expect 2 "from 1 up, as 500, 20M or 4G" run "$tmp/forever.tir" --max-memory 0
expect 2 "from 1 up" run "$tmp/forever.tir" --max-memory 9999999T
check "Ctrl-C ends a run with 130" python3 - "$program" "$tmp/forever.tir" <<'PY'
import signal, subprocess, sys, time
# A job in the background was started with the signal ignored.
p = subprocess.Popen([sys.argv[1], "run", sys.argv[2]], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
time.sleep(0.3)
p.send_signal(signal.SIGINT)
sys.exit(p.wait(20) != 130)
PY

# The same seed gives the same file, whatever the number of threads; another seed another.
check "run writes" "$program" run "$tmp/m.tir" --dim n=5 --output "$tmp/a.npz"
check "run writes again" "$program" run "$tmp/m.tir" --dim n=5 --output "$tmp/b.npz" --threads 1
check "the same bytes" cmp "$tmp/a.npz" "$tmp/b.npz"
check "run with another seed" "$program" run "$tmp/m.tir" --dim n=5 --output "$tmp/c.npz" --seed 1
check "other bytes" bash -c "! cmp -s '$tmp/a.npz' '$tmp/c.npz'"
check "standard output" bash -c "'$program' run '$tmp/m.tir' --dim n=5 --output - > '$tmp/d.npz' && cmp '$tmp/a.npz' '$tmp/d.npz'"
expect 0 "all as expected" run "$tmp/m.tir" --dim n=5 --expect "$tmp/a.npz"
python3 -c "import zipfile; zipfile.ZipFile('$tmp/a.npz').extract('y.npy', '$tmp')"
expect 0 "f32[5, 4]" run "$tmp/m.tir" --input "x=$tmp/y.npy"
expect 1 "where n is 3 by --dim" run "$tmp/m.tir" --dim n=3 --input "x=$tmp/y.npy"
expect 2 "give one of them" inspect "$tmp/m.tir" --text --json
ln -s loop.onnx "$tmp/loop.onnx"
expect 1 "symbolic links" run "$tmp/loop.onnx"
expect 0 "com.microsoft.Gelu" ops 'com.microsoft.Gelu'
check "no opset 0" bash -c "! '$program' ops | grep -Eq ' 0 +(read|refused)'"
expect 3 "elements differ, worst at" run "$tmp/m.tir" --dim n=5 --seed 1 --expect "$tmp/a.npz"
expect 0 "all as expected" run "$tmp/m.tir" --dim n=5 --seed 1 --expect "$tmp/a.npz" --atol 10
expect 3 "got f32[2, 4], expected f32[5, 4]" run "$tmp/m.tir" --dim n=2 --expect "$tmp/a.npz"
expect 0 "all as expected" run "$tmp/m.tir" --dim n=5 --compress --output "$tmp/e.npz" --expect "$tmp/a.npz"
expect 0 "all as expected" run "$tmp/m.tir" --dim n=5 --expect "$tmp/e.npz"

# ---- sequences and optionals ----
echo 'graph @"q"(%s: seq(f32[*]), %o: opt(f32[*])) -> (t: seq(f32[*]), p: opt(f32[*])) { return %s, %o }' >"$tmp/q.tir"
expect 1 "give its items in order with --input s=F.npy" run "$tmp/q.tir"
expect 0 "t  seq(f32[5, 4], f32[5, 4])" run "$tmp/q.tir" -i "s=$tmp/y.npy" -i "s=$tmp/y.npy" -o "$tmp/q2.npz"
expect 0 "p  opt()" run "$tmp/q.tir" -i "s=$tmp/y.npy" -o "$tmp/q1.npz"
expect 0 "p  opt(f32[5, 4])" run "$tmp/q.tir" -i "s=$tmp/y.npy" -i "o=$tmp/y.npy" -o "$tmp/q3.npz"
expect 0 "t  seq(f32[5, 4], f32[5, 4])" run "$tmp/q.tir" -i "s=$tmp/q2.npz" --expect "$tmp/q2.npz"
expect 3 "output 't.1': no value" run "$tmp/q.tir" -i "s=$tmp/y.npy" --expect "$tmp/q2.npz"
expect 3 "got a sequence of 2, expected 1" run "$tmp/q.tir" -i "s=$tmp/q2.npz" --expect "$tmp/q1.npz"
expect 0 "all as expected" run "$tmp/q.tir" -i "s=$tmp/y.npy" -i "o=$tmp/y.npy" --expect "$tmp/q3.npz"
expect 1 "given twice" run "$tmp/q.tir" -i "s=$tmp/y.npy" -i "o=$tmp/y.npy" -i "o=$tmp/y.npy"
sed 's/%s/%t/g' "$tmp/q.tir" >"$tmp/r.tir"
expect 0 "t  seq(f32[5, 4], f32[5, 4])" run "$tmp/r.tir" --inputs "$tmp/q2.npz"

expect 1 "do not fit one .npy" run "$tmp/m.tir" --output "$tmp/x.npy"
printf 'not a model' >"$tmp/bad.onnx"
expect 1 "bad.onnx" verify "$tmp/bad.onnx"
printf 'PK not an archive' >"$tmp/bad.npz"
expect 1 "bad.npz" run "$tmp/m.tir" --inputs "$tmp/bad.npz"

# ---- compiled: bench, --compare, explain --kernel ----
export TENON_CACHE=$tmp/cache
expect 0 "all as expected" run "$tmp/m.tir" --target ref --compare interp --per-node
expect 0 "results of steps compared" run "$tmp/m.tir" --target host --compare interp --per-node
expect 2 "--per-node needs --compare interp" run "$tmp/m.tir" --per-node
# An operator that is not supported is shown with all the rest.
expect 0 "1  custom operator Frobnicate" inspect tests/models/custom.tflite
expect 0 "1  mul" inspect tests/models/custom.tflite
expect 0 "y     f32[2]" inspect tests/models/custom.tflite
expect 4 "custom operator Frobnicate" run tests/models/custom.tflite
expect 0 "" graph tests/models/custom.tflite -o "$tmp/custom.json"
check "the drawing has all nodes" bash -c "grep -q Frobnicate '$tmp/custom.json' && grep -q '\"mul\"' '$tmp/custom.json'"
expect 0 "signature square" inspect tests/models/signatures.tflite
expect 0 "y  f32[2]" run tests/models/signatures.tflite --signature square
# Sums of another order, amplified: roundings explain it.  Contractions in bf16 are off by more than that.
printf 'graph @"m"(%%x: f32[200000]) {\n  %%s = reduce_sum(%%x)\n  %%k = const f32[1] {300}\n  %%p = mul(%%s, %%k)\n  %%y = sin(%%p)\n  return y = %%y\n}\n' >"$tmp/deep.tir"
expect 0 "all as expected" run "$tmp/deep.tir" --target ref --compare interp
expect 3 "by more than roundings explain" run examples/digits/digits.onnx --target ref --precision bf16 --compare interp
expect 3 "prints the error of each layer" run examples/digits/digits.onnx --target ref --precision bf16 --compare interp
# Inputs from JSON, in the form of --output F.json: maps, sequences and optionals too.
cat > "$tmp/map.tir" <<'END'
graph @"g"(%d: map(string, f32[]), %i: map(i64, f32[])) -> (y: f32[1, 3], z: f32[1, 2]) {
  %y = dict_vectorizer(%d) string_vocabulary=["a", "b", "c"]
  %z = dict_vectorizer(%i) int64_vocabulary=[1, 7]
  return %y, %z
}
END
cat > "$tmp/zip.tir" <<'END'
graph @"g"(%x: f32[n, 2]) -> (p: seq(map(string, f32[]))) {
  %p = zip_map(%x) classlabels_strings=["cat", "dog"]
  return %p
}
END
cat > "$tmp/items.tir" <<'END'
graph @"g"(%s: seq(i32[n]), %o: opt(bool[])) -> (y: seq(i32[n]), z: opt(bool[])) {
  return %s, %o
}
END
echo '{"i": {"1": 4, "7": "-Infinity"}, "d": {"c": 2.5, "a": 1, "zz": 3}}' > "$tmp/map.json"
expect 0 "first 1 0 2.5" run "$tmp/map.tir" --inputs "$tmp/map.json"
expect 0 "first 4 -inf" run "$tmp/map.tir" --inputs "$tmp/map.json" --target interp
expect 1 "give it with --input d=F.json" run "$tmp/map.tir"
expect 0 "{'cat': " run "$tmp/zip.tir"
echo '{"a": 1}' > "$tmp/a.json" && echo '{"7": "x"}' > "$tmp/text.json"
expect 1 "the key 'a' is no integer" run "$tmp/map.tir" --input "d=$tmp/a.json" --input "i=$tmp/a.json"
expect 1 "element 0 is a text that f32 does not hold" run "$tmp/map.tir" --input "d=$tmp/a.json" --input "i=$tmp/text.json"
expect 1 "input 'd' is given twice" run "$tmp/map.tir" --input "d=$tmp/a.json" --input "d=$tmp/a.json"
echo '{"s": [[1, 2], [], [-2147483648]], "o": null}' > "$tmp/items.json"
"$program" run "$tmp/items.tir" --inputs "$tmp/items.json" -o "$tmp/items.out.json" >/dev/null
check "what JSON gives comes out as JSON" python3 -c "import json; a, b = (json.load(open('$tmp/' + n)) for n in ('items.json', 'items.out.json')); assert b == {'y': a['s'], 'z': a['o']}, b"
for wrong in '{"s": [[1, 2147483648]]}' '{"s": [[1, [2]]]}' '{"s": {"a": 1}}' '{"s": [[1.5]]}' '{"s": [], "o": 1}'; do
  echo "$wrong" > "$tmp/wrong.json"
  expect 1 "input '" run "$tmp/items.tir" --inputs "$tmp/wrong.json"
done
# Progress is for terminals, and for whoever asks.
for command in run "bench --seconds 0.01 --warmup 0" "compile -o $tmp/p.tenon"; do
  rm -f "$tmp/p.tenon"
  TENON_PROGRESS=1 expect 0 "lower: hidden" $command examples/digits/digits.onnx
  check "no progress off a terminal: $command" bash -c "'$program' $command examples/digits/digits.onnx 2>&1 | { ! grep -q 'lower: '; }"
done
expect 2 "--compare takes 'interp'" run "$tmp/m.tir" --compare other
"$program" compile "$tmp/m.tir" --target host -o "$tmp/c.tenon" >/dev/null 2>&1
expect 0 "median" bench "$tmp/m.tir" --target host --seconds 0.01 --warmup 0 --profile
check "bench --json is JSON" json_ok bench "$tmp/m.tir" --target ref --seconds 0.01 --warmup 0 --batch 3 --json --profile
expect 0 "GFLOP/s" bench "$tmp/m.tir" --target ref --seconds 0.01 --warmup 0 --trace "$tmp/trace.json"
check "the trace is JSON" python3 -m json.tool "$tmp/trace.json"
digits=examples/digits/digits.onnx
# Names lead, and the schedule behind them is whole.
"$program" bench $digits --target ref --seconds 0.01 --warmup 0 --trace "$tmp/trace.json" --force >/dev/null 2>&1
check "events of the trace are named after nodes" python3 - "$tmp/trace.json" <<'END'
import json, sys
events = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "X"]
assert {"hidden", "logits"} <= {e["name"] for e in events}, events
assert any("unroll=" in e["args"]["what"] for e in events), events
END
check "a profile names the node, then the schedule" bash -c "'$program' bench $digits --target ref --seconds 0.01 --warmup 0 --profile | grep -Eq ' hidden +gemm rows=[0-9]+ .*unroll=[0-9]+$'"
expect 2 "unknown target 'abacus'" bench "$tmp/m.tir" --target abacus
expect 0 "GFLOP/s of f32" doctor --measure
check "doctor --measure --json is JSON" json_ok doctor --measure --json
check "doctor --round-trip --json is JSON" json_ok doctor --round-trip --json
expect 0 "of which the roofline explains" bench "$tmp/m.tir" --target ref --seconds 0.01 --warmup 0 --profile --by-loss
expect 0 "compiled model" inspect "$tmp/c.tenon"
check "options at their defaults are not recorded" sh -c "! '$program' inspect '$tmp/c.tenon' | grep -q '^option'"
"$program" compile "$tmp/m.tir" --target host -O1 --disable fold-constants --batch-invariant -o "$tmp/o.tenon" >/dev/null 2>&1
expect 0 "option disable=fold-constants" inspect "$tmp/o.tenon"
expect 0 '"options": ["batch_invariant=1", "level=1", "disable=fold-constants"]' inspect "$tmp/o.tenon" --json
expect 0 "compile 0.0 ms" bench "$tmp/c.tenon" --seconds 0.01 --warmup 0 --profile
check "bench --json of a compiled model is JSON" json_ok bench "$tmp/c.tenon" --seconds 0.01 --warmup 0 --json
expect 0 "on host" bench "$tmp/c.tenon" --target host --seconds 0.01 --warmup 0
expect 4 "it was not compiled for ref, but for: host" bench "$tmp/c.tenon" --target ref
expect 4 "it was not compiled for cpu, but for: host" run "$tmp/c.tenon" --target cpu
expect 2 "target host is given twice" compile "$tmp/m.tir" --target host --target host -o "$tmp/v.tenon"
expect 2 "only a .tenon file holds variants" compile "$tmp/m.tir" --target host --target cpu -o "$tmp/v.o"
check "inspect --json lists variants" json_ok inspect "$tmp/c.tenon" --json
expect 2 "is compiled already" bench "$tmp/c.tenon" -O1
expect 0 "run by the code in the file" run "$tmp/c.tenon" -v
expect 0 "run by interp" run "$tmp/m.tir" -v --target interp
expect 0 "run by interp: only the interpreter does what is asked for" run "$tmp/m.tir" -v --max-ops 1M
expect 0 "run by interp: only the interpreter does what is asked for" run "$tmp/m.tir" -v --target auto -O2
# A program with nothing beside it and nothing to find makes no code.
mkdir "$tmp/alone"
cp "$program" "$tmp/alone/tenon"
check "run without a code generator" env PATH=/nowhere "$tmp/alone/tenon" run "$tmp/m.tir"
said=$(PATH=/nowhere "$tmp/alone/tenon" run "$tmp/m.tir" -v 2>&1 >/dev/null)
check "and says so" test "$said" = "tenon: run by interp: tenon-codegen was not found"
if [ -x "$(dirname "$program")/tenon-codegen" ]; then
  expect 0 "run by cpu" run "$tmp/m.tir" -v
  expect 0 "2 variants" compile "$tmp/m.tir" --target host --target cpu -o "$tmp/v.tenon"
  expect 0 "variant for host: it runs here, and another is faster" inspect "$tmp/v.tenon"
  expect 0 "run by the code in the file, for cpu" run "$tmp/v.tenon" -v
  expect 0 "run by the code in the file, for host" run "$tmp/v.tenon" -v --target host
  expect 2 "is of the CPU's code alone" compile "$tmp/m.tir" --emit exe --target opencl -o "$tmp/x"
  expect 2 "C source is a file of its own" compile "$tmp/m.tir" --target cpu --target c -o "$tmp/x.tenon"
  expect 1 "has no devices to choose" compile "$tmp/m.tir" --target cpu --device 0 -o "$tmp/x.tenon"
  expect 1 "places kernels on one of two machines" run "$tmp/m.tir" --target cpu --place alternate
  expect 2 "--place goes with two targets for one graph" compile "$tmp/m.tir" --target host --target cpu --place alternate -o "$tmp/x.tenon"
  expect 2 "--device goes with a target that has devices" compile "$tmp/m.tir" --target host --target cpu --device 0 -o "$tmp/x.tenon"
  expect 2 "go with a --target that compiles for devices" run "$tmp/m.tir" --device 0
  expect 2 "is compiled already" run "$tmp/v.tenon" --target cpu --device 0
  expect 2 "shows code for the CPU or a device" explain "$tmp/m.tir" --target c --kernel 0
  expect 2 "go with a target that has devices" explain "$tmp/m.tir" --device 0
  expect 0 "__global__" explain "$tmp/m.tir" --target cuda --device sm_90a --kernel 0
  check "explain --kernel of a device is JSON" json_ok explain "$tmp/m.tir" --target cuda --device sm_90a --kernel 0 --json
  expect 0 "1 kernel" compile "$tmp/m.tir" --target cuda --device sm_90a -o "$tmp/x.tenon"
  # Attention is known by what is loaded: here bf16, below nodes of f32.
  cat >"$tmp/attention.tir" <<'TIR'
graph @"a"(%x: bf16[3, 100, 384]) -> (y: f32[3, 100, 128]) {
  %c = cast(%x) to=f32 : f32[3, 100, 384]
  %q:3 = split(%c) axis=2 num_outputs=3 : f32[3, 100, 128], f32[3, 100, 128], f32[3, 100, 128]
  %y = attention(%q.0, %q.1, %q.2) q_num_heads=2 kv_num_heads=2 : f32[3, 100, 128]
  return %y
}
TIR
  expect 0 "attention_mma warpgroups=1 keys=112 stages=1," explain "$tmp/attention.tir" --target cuda --device sm_90a --kernel 0
  sed s/bf16/f32/ "$tmp/attention.tir" >"$tmp/attention32.tir"
  expect 0 "attention_mma warpgroups=1 keys=64 stages=2 math=3xtf32," explain "$tmp/attention32.tir" --target cuda --device sm_90a --kernel 0
  expect 0 "kernel 0" explain "$tmp/m.tir" --kernel 0
  check "compile --timings names the node, then the schedule" bash -c "'$program' compile $digits --target cpu -o '$tmp/t.tenon' --timings 2>&1 | grep -Eq ' hidden +gemm rows=[0-9]+ .*unroll=[0-9]+$'"
  expect 2 "no kernel is '99'" explain "$tmp/m.tir" --kernel 99
  expect 1 "no kernel is 'nobody'; the nearest is" explain "$tmp/m.tir" --schedule "nobody=pointwise"
  expect 1 "no kernel is 'nobody'; the nearest is" run "$tmp/m.tir" --schedule "nobody=pointwise"
  expect 2 "goes with a target that compiles" run "$tmp/m.tir" --target plan --schedule "*=pointwise"
  expect 1 "does not match because" compile "$tmp/m.tir" --schedule "*=winograd" -o "$tmp/x.tenon"
  expect 1 "a schedule begins with a template: gemv," run "$tmp/m.tir" --target cpu --schedule "*="
  expect 1 "unknown template 'gem'; templates: gemv," run "$tmp/m.tir" --target cpu --schedule "*=gem"
  check "explain --kernel --json is JSON" json_ok explain "$tmp/m.tir" --kernel 0 --json
  expect 0 "exported" cache export -o "$tmp/a.kernels"
  expect 2 "import it with --trust" cache import "$tmp/a.kernels"
  expect 0 "already there" cache import --trust "$tmp/a.kernels"
  head -c 100 "$tmp/a.kernels" > "$tmp/cut.kernels"
  expect 1 "damaged" cache import --trust "$tmp/cut.kernels"
  expect 1 "not an archive of kernels" cache import --trust "$tmp/m.tir"
  expect 0 "merged" cache merge "$tmp/a.kernels" "$tmp/a.kernels" -o "$tmp/b.kernels"
  expect 2 "also an input" cache merge "$tmp/a.kernels" -o "$tmp/a.kernels"
  expect 2 "takes no file" cache list "$tmp/a.kernels"
  check "cache import --json is JSON" json_ok cache import --trust "$tmp/b.kernels" --json
  expect 0 "bytes" run "$tmp/m.tir" --target cpu --json
  expect 1 "are left of the limit" run "$tmp/m.tir" --target cpu --max-ops 2
  for machine in "--cpu x86-64-v3" "--features -avx512vl" "--triple x86_64-linux-gnu --cpu znver4 --features -fma" \
      "--triple aarch64-linux-gnu --cpu neoverse-n1 --features +dotprod"; do
    expect 0 "kernel" compile "$tmp/m.tir" $machine -o "$tmp/m.tenon"
  done
  expect 4 "it was compiled for aarch64" run "$tmp/m.tenon"
fi
expect 2 "'foo' is no CPU of x86_64" compile "$tmp/m.tir" --triple x86_64-linux-gnu --cpu foo
expect 2 "'+bogus' is no feature" compile "$tmp/m.tir" --features +bogus
expect 2 "no code can be made for the triple 'sparc'" compile "$tmp/m.tir" --triple sparc
expect 2 "--weights-out goes with" compile "$tmp/m.tir" --weights-out "$tmp/w.bin"

# ---- C source ----
expect 0 "stack at most" compile "$tmp/m.tir" --target c -o "$tmp/m.c"
check "a source and a header" test -s "$tmp/m.c" -a -s "$tmp/m.h"
expect 0 "arena" compile "$tmp/m.tir" -o "$tmp/e.c" --embedded --fix n=3 --single-file
check "and one file alone" test -s "$tmp/e.c" -a ! -e "$tmp/e.h"
expect 4 "give them with --fix" compile "$tmp/m.tir" -o "$tmp/e2.c" --embedded
expect 2 "--target c writes C" compile "$tmp/m.tir" --target c --emit obj
expect 2 "two files need a name" compile "$tmp/m.tir" --target c -o -
expect 0 "int model(" compile "$tmp/m.tir" --target c -o - --single-file
expect 1 "has no input 'none'" compile "$tmp/m.tir" --constant none=x.npy
check "compile --json of C is JSON" json_ok compile "$tmp/m.tir" --target c -o "$tmp/m.c" --json
if command -v cc >/dev/null; then
  expect 0 "all as expected" run "$tmp/m.tir" --target c --dim n=3 --compare interp
fi

# ---- conform ----
mkdir "$tmp/empty"
expect 1 "no tests below" conform "$tmp/empty"
expect 1 "cannot read the folder" conform "$tmp/none"
mkdir -p "$tmp/suite/test_bad/test_data_set_0"
cp "$tmp/bad.onnx" "$tmp/suite/test_bad/model.onnx"
: >"$tmp/suite/test_bad/test_data_set_0/output_0.pb"
expect 3 "1 tests: 0 passed, 1 wrong, 0 unsupported, 0 crashed" conform "$tmp/suite"
expect 1 "none of 1 tests fits --filter 'test_x*'" conform "$tmp/suite" --filter 'test_x*'
check "conform --report is JSON" bash -c "'$program' conform '$tmp/suite' --report - | python3 -m json.tool"
tar -C "$tmp" -cf "$tmp/suite.tar" suite
expect 3 "1 tests: 0 passed, 1 wrong" conform "$tmp/suite.tar"
expect 3 '"model": "suite/test_bad/model.onnx"' conform "$tmp/suite.tar" --report -

# ---- other formats than ONNX ----
torch=tests/models/torch
expect 0 "torch.export" inspect $torch/dynamic.pt2
expect 0 "give the types of x" inspect $torch/loop.pt
expect 0 "output_1" inspect $torch/loop.pt --type "x=f32[3,4]"
expect 0 "inputs" inspect $torch/loop.pt --type "x=f32[3,4]" --type n=5
expect 2 "--type takes NAME=TYPE" inspect $torch/loop.pt --type "x=f99[3]"
expect 4 "give the types of x" run $torch/loop.pt
expect 0 "a.w" inspect $torch/legacy.pth
expect 4 "holds weights and no graph" run $torch/legacy.pth
expect 0 "1 tensors" convert $torch/legacy.pth -o "$tmp/w.safetensors"
expect 0 "1 tensors" convert "$tmp/w.safetensors" -o "$tmp/w.npz"
expect 0 "a.w" inspect "$tmp/w.npz" --json
check "converted twice, the same" python3 - "$tmp/w.npz" <<'END'
import sys, zipfile
data = zipfile.ZipFile(sys.argv[1]).read("a.w.npy")
import struct
assert struct.unpack("<6f", data[-24:]) == (0, 3, 1, 4, 2, 5), data[-24:]
END
expect 0 "nodes" convert $torch/dynamic.pt2 -o "$tmp/dynamic.onnx"
expect 0 "opset 21, by tenon" inspect "$tmp/dynamic.onnx"
expect 0 "nodes" convert "$tmp/dynamic.onnx" --optimised --external -o "$tmp/again.onnx"
expect 0 "" run "$tmp/again.onnx" --target interp
expect 4 "fix them with --fix" convert $torch/dynamic.pt2 -o "$tmp/dynamic.mlir"
expect 0 "nodes" convert $torch/dynamic.pt2 --fix s58=3 -o "$tmp/dynamic.mlir"
expect 0 "StableHLO" inspect "$tmp/dynamic.mlir"
expect 2 "writes .onnx, .mlir, .npz and .safetensors" convert $torch/legacy.pth -o "$tmp/w.word"
expect 0 "aten::conv2d" ops --frontend pytorch
expect 0 "gguf" ops --frontend list
expect 2 "no reader 'word'" ops --frontend word
check "inspect of weights is JSON" json_ok inspect $torch/legacy.pth --json

echo "$passed passed, $failed failed"
[ $failed = 0 ]
