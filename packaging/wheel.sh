#!/usr/bin/env bash
# wheel.sh [ARCH] -- the Python package for this machine or another: build/wheel/tenon-*-manylinux_2_28_ARCH.whl.
#
#   packaging/wheel.sh            for this machine
#   packaging/wheel.sh aarch64    with Debian's cross compiler and Debian's arm64 packages of LLVM, zlib, zstd and libstdc++
#
# Links against stub libraries of glibc 2.28 (glibc-stubs.sh).  Where they cannot be had, the wheel needs this machine's glibc, and
# its tag says so.  The build folder is build/wheel-build/ARCH.  `make wheel` installs what is needed and calls this.
set -eu -o pipefail
cd "$(dirname "$0")/.."
here=$(uname -m) arch=${1:-$(uname -m)}
build=build/wheel-build/$arch stubs=build/glibc-2.28/$arch sysroot=build/sysroot/$arch
options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DTENON_LLVM_STATIC=ON)
others=()

if packaging/glibc-stubs.sh "$arch" "$stubs"; then
  options+=(-DTENON_GLIBC_STUBS="$PWD/$stubs")
else
  echo "wheel: linked against this machine's glibc: the wheel needs one at least as new" >&2
fi
if [ "$arch" != "$here" ]; then
  case $arch in
  aarch64) debian=arm64 ;;
  *) echo "wheel: no rule for $arch" >&2; exit 2 ;;
  esac
  packaging/sysroot.sh $debian "$sysroot" llvm-19-dev zlib1g zlib1g-dev libzstd-dev libstdc++-12-dev gcc-12-base
  options+=(-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$arch" -DCMAKE_C_COMPILER="$arch-linux-gnu-gcc"
    -DCMAKE_LIBRARY_ARCHITECTURE="$arch-linux-gnu" -DTENON_SYSROOT="$PWD/$sysroot" -DCMAKE_FIND_ROOT_PATH="$PWD/$sysroot"
    -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER)
  others=(--sysroot "$sysroot")
fi

mkdir -p "$build"
if ! cmake -S . -B "$build" "${options[@]}" >"$build/configure.log" 2>&1; then
  cat "$build/configure.log" >&2
  exit 1
fi
cmake --build "$build" -j"${JOBS:-$(nproc)}" --target tenon_shared tenon_cli tenon_runtime tenon-codegen
rm -f build/wheel/tenon-*_"$arch".whl
tools/wheel.py --build "$build" "${others[@]}"
