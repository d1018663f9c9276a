#!/usr/bin/env bash
# run.sh SECONDS [NAME...] -- runs the fuzz targets build/fuzz/fuzz-NAME one after the other, SECONDS each.
#
# The corpus of a target grows in build/fuzz/corpus/NAME.  It is seeded with the small files of the endings below
# that are found in the suites present and in tests/.  A finding is written to build/fuzz/findings and ends the run
# with status 1.  The bounds on time (FUZZ_SECONDS of processor time, 1) and memory (256 MB, nothing left behind) are held by the
# targets themselves (fuzz.h); the fuzzer's own limits below only end what hangs or what the sanitizers themselves
# cannot bear.  FUZZ_SEED fixes the order of what is tried, so that `make test` tries the same inputs every time.
set -u
cd "$(dirname "$0")/../.." || exit
seconds=$1
shift
data=$(realpath -m "${TENON_DATA:-../shared/data}")
declare -A ENDINGS=([onnx]="onnx" [text]="tir" [npz]="npz npy" [pb]="pb" [json]="json" [weights]="safetensors gguf pt pt2 npz" [torch]="none" [template]="none" [tflite]="tflite" [stablehlo]="mlir mlirbc jax_export" [tokenizer]="none" [tuned]="none" [certificate]="none" [frame]="none" [stats]="none" [grammar]="none" [llm]="none" [grpc]="none" [tool_calls]="none" [http]="none" [requests]="none")
SEED_BYTES_MAX=16384

# The suites, unpacked once from their archives, or Debian's copy.
tenon=build/tenon  # the release build is faster than the one with sanitizers
[ -x $tenon ] || tenon=build/fuzz/tenon
places=(tests)
for f in "$data"/suites/onnx-*-tests.tar.xz "$data"/suites/stablehlo-testdata.tar.xz; do
  [ -e "$f" ] && places+=("$(tests/system/suite.sh "$f")")
done
[ -d /usr/share/libonnx-testdata ] && places+=(/usr/share/libonnx-testdata)
[ -d "$data/models" ] && places+=("$data/models")

seed() {  # name, folder
  mkdir -p "$2"
  [ -e "$2/.seeded" ] && return
  # What earlier campaigns found worth keeping (minimise.sh).
  [ -e "tests/fuzz/corpus/$1.tar.xz" ] && tar -xJf "tests/fuzz/corpus/$1.tar.xz" -C "$2"
  for ending in ${ENDINGS[$1]:-$1}; do
    find -L "${places[@]}" -type f -name "*.$ending" -size -$((SEED_BYTES_MAX + 1))c -print0 2>/dev/null
  done | xargs -0r md5sum | sort | uniq -w 32 | while read -r sum f; do cp "$f" "$2/seed-${sum:0:16}"; done
  # The text of the small models, as the program prints it.
  if [ "$1" = text ]; then
    find -L "${places[@]}" -name '*.onnx' -size -4k 2>/dev/null | while IFS= read -r f; do
      t=$(timeout 5 $tenon inspect --text "$f" 2>/dev/null) && printf '%s\n' "$t" >"$2/text-$(md5sum <"$f" | cut -c1-16)"
    done
  fi
  [ "$1" = gguf ] && python3 tests/fuzz/gguf_seeds.py "$2"
  [ "$1" = template ] && python3 tests/fuzz/template_seeds.py "$2"
  [ "$1" = llm ] && python3 tests/fuzz/llm_seeds.py "$2"
  [ "$1" = grpc ] && python3 tests/fuzz/grpc_seeds.py "$2"
  [ "$1" = tokenizer ] && python3 tests/fuzz/tokenizer_seeds.py "$2"
  { [ "$1" = http ] || [ "$1" = requests ]; } && python3 tests/fuzz/requests_seeds.py "$2" "$1"
  if [ "$1" = tuned ]; then
    printf 'tenon-schedules 1\nmachine 0123456789abcdef vector=64\nreorder\n0123456789abcdef0123456789abcdef gemm rows=14 cols=32 # 1.250\nfedcba9876543210fedcba9876543210 window rows=1 band=4\n' >"$2/file"
  fi
  if [ "$1" = records ]; then
    printf '%s\n' '{"tenon-records":1,"generator":"made by Tenon"}' '{"workload":"50e721e49c013f00c62cf59f2163542a","text":"w"}' \
      '{"run":"0123456789abcdef0123456789abcdef","machine":"0123456789abcdef vector=64","model":"m","tool":"0","seed":0,"started":0,"reorder":false,"finished":true}' \
      '{"trial":0,"phase":"confirm","status":"ok","workload":"50e721e49c013f00c62cf59f2163542a","schedule":"gemm rows=2","default":"gemm rows=1","code_bytes":9,"ns":[10,11],"default_ns":[20,21]}' \
      '{"trial":1,"phase":"model","status":"ok","reverted":"","code_bytes":0,"ns":[1],"default_ns":[2]}' >"$2/file"
  fi
  if [ "$1" = frame ]; then
    hash=$(printf '%064d' 7)
    printf '0%s' '{"tool":"0.1","triple":"x86_64-pc-linux-gnu","cpu":"x86-64","features":"+avx2","l1":32768,"l2":524288,"l3":0}' >"$2/hello"
    printf '1%s' '{"task":7,"quick":true,"drop":false,"rounds":9,"milliseconds":20,"cold":0,"tensors":[{"dtype":"f32","n":60,"weight":true},{"dtype":"i64","n":1,"weight":false,"bytes":"0100000000000000"}],"kernels":[{"text":"k","dims":[3],"args":[{"tensor":1},{"tensor":0,"pack":{"extent":[2,4],"limit":[2,3],"stride":[3,1],"coef":[[1,0],[0,1]],"words":0,"flip":0,"transform":[]}},{"tensor":0,"pack":{"extent":[2,2,2,3],"limit":[3,3,2,3],"stride":[3,1,9,18],"coef":[[0,0,0,0],[0,0,0,0],[1,0,0,0],[0,0,0,1]],"words":0,"flip":0,"transform":[1,0,0,0.5,1,2]}},{"result":0}]}]}' >"$2/task"
    printf '2%s' '{"task":7,"kernels":[{"status":"ok","why":"","hash":"'"$hash"'","code_bytes":64,"ns":[10,11]},{"status":"failed","why":"x","hash":"","code_bytes":0,"ns":[]}]}' >"$2/times"
  fi
  # What stands inside PyTorch's archives, behind the byte that says what it is (torch.c).
  [ "$1" = torch ] && python3 tests/fuzz/torch_seeds.py "$2" $SEED_BYTES_MAX "${places[@]}"
  # The plans of small compiled models, without the header in front.
  if [ "$1" = artifact ]; then
    for f in tests/models/*.onnx tests/golden/*.tir; do
      $tenon compile "$f" --target host -o "$2/whole" >/dev/null 2>&1 || continue
      n=$($tenon inspect --json "$2/whole" | grep -o '"plan_bytes": *[0-9]*' | grep -o '[0-9]*$' | head -n 1)
      tail -c +4097 "$2/whole" | head -c "$n" >"$2/plan-$(basename "$f")"
    done
    rm -f "$2/whole"
  fi
  touch "$2/.seeded"
}

export ASAN_OPTIONS=${ASAN_OPTIONS:-quarantine_size_mb=16:detect_leaks=1:allocator_may_return_null=1}
names=("$@")
if [ $# = 0 ]; then
  for f in tests/fuzz/*.c; do [ -e "$f" ] && names+=("$(basename "$f" .c)"); done
fi
passed=0 failed=0 executed=0
for name in "${names[@]}"; do
  if [ "$name" = grpc ] && ! [ -x build/fuzz/fuzz-grpc ]; then
    echo "fuzz-grpc: SKIP, built without nghttp2"
    continue
  fi
  corpus=build/fuzz/corpus/$name findings=build/fuzz/findings/$name
  seed "$name" "$corpus"
  rm -rf "$findings"
  mkdir -p "$findings"
  dict=()
  if [ -e "tests/fuzz/$name.dict" ]; then
    # The words of the format, and the ops' names.
    { cat "tests/fuzz/$name.dict"; $tenon ops --json 2>/dev/null | grep -o '"name": *"[a-z_0-9]*"' |
      sed 's/.*"\([a-z_0-9]*\)"$/"\1("/' | sort -u; } >"build/fuzz/$name.dict"
    dict=("-dict=build/fuzz/$name.dict")
  fi
  echo "fuzz-$name: $(find "$corpus" -type f -not -name .seeded | wc -l) inputs, $seconds s"
  build/fuzz/fuzz-"$name" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=3072 -malloc_limit_mb=1024 \
    -max_len=65536 ${FUZZ_SEED:+"-seed=$FUZZ_SEED"} -print_final_stats=1 -artifact_prefix="$findings/" "${dict[@]}" "$corpus" \
    >"build/fuzz/$name.log" 2>&1
  status=$?
  grep -E '\bcov: ' "build/fuzz/$name.log" | tail -n 1
  grep -E 'stat::number_of_executed_units|stat::peak_rss_mb' "build/fuzz/$name.log"
  ran=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name.log")
  executed=$((executed + ${ran:-0}))
  if [ $status = 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    tail -n 40 "build/fuzz/$name.log"
    ls "$findings"
  fi
done
echo "$executed executions"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
