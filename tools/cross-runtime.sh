#!/usr/bin/env bash
# cross-runtime.sh MACHINE ARCHIVE -- libtenon_runtime.a for another machine, with Debian's cross compiler for it.
#
#   tools/cross-runtime.sh aarch64-linux-gnu build/cross/aarch64/libtenon_runtime.a
#
# MACHINE is the prefix of the tools: MACHINE-gcc, MACHINE-ld, MACHINE-ar and so on.  The files are those of
# cmake/runtime.cmake, the flags those of CMakeLists.txt.  What is newer than its source and every header is kept.
set -eu -o pipefail
machine=$1 archive=$2
source=$(cd "$(dirname "$0")/.." && pwd)
folder=$(dirname "$archive")
mkdir -p "$folder/objects"
export CC="$machine-gcc" SOURCE=$source OBJECTS=$folder/objects
command -v "$CC" >/dev/null || { echo "cross-runtime: no $CC (Debian: gcc-$machine)" >&2; exit 3; }
if command -v ccache >/dev/null; then CC="ccache $CC"; fi
NEWEST=$(find "$source/src" "$source/include" \( -name '*.h' -o -name '*.def' \) -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)
export NEWEST

# shellcheck disable=SC2329
compile() {
  object=$OBJECTS/$(basename "$(dirname "$1")")-$(basename "$1" .c).o
  if [ "$object" -nt "$1" ] && [ "$object" -nt "$NEWEST" ]; then return; fi
  $CC -std=c11 -O2 -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -ffp-contract=off -fno-math-errno \
    -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -I"$SOURCE/include" -I"$SOURCE/src" -c "$1" -o "$object"
}
export -f compile
find "$source"/src/{base,eval,runtime} -name '*.c' | grep -Ev '/(zip|zipwrite|npz|json|artifact_open)\.c$' | sort |
  xargs -P "${JOBS:-$(nproc)}" -I{} bash -euc 'compile {}'
newer=$(find "$folder/objects" "$source/cmake/split.sh" "$source/cmake/prefix.sh" -type f -newer "$archive" 2>/dev/null || echo all)
[ -n "$newer" ] || exit 0
rm -f "$archive"
find "$folder/objects" -name '*.o' ! -name aot-rows.o -print0 | sort -z | xargs -0 "$machine-ar" qcs "$archive"
"$source/cmake/split.sh" "$machine-ld" "$machine-nm" "$machine-objcopy" "$machine-ar" "$folder/objects/aot-rows.o" "$archive"
"$source/cmake/prefix.sh" "$machine-nm" "$machine-objcopy" "$archive"
