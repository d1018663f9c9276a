#!/usr/bin/env bash
# glibc-stubs.sh ARCH FOLDER -- what a linker needs of glibc 2.28 for ARCH (x86_64 or aarch64): stub libraries and start-up files.
#
#   packaging/glibc-stubs.sh x86_64 build/glibc-2.28/x86_64
#
# The Python package ziglang carries the lists of glibc's symbols by version, and makes stub libraries of them when it links.  This
# links an empty program and takes them from zig's cache.  FOLDER is relative to the repository.  Exit status 3: the package cannot be had (no package index).
set -eu -o pipefail
arch=$1 folder=$2 glibc=2.28
cd "$(dirname "$0")/.."
if [ -e "$folder/libc.so" ]; then exit 0; fi
zig=$(find build/venv/lib/python3*/site-packages/ziglang/zig 2>/dev/null | head -n 1 || true)
if [ -z "$zig" ]; then
  echo "glibc-stubs: no zig in build/venv (tools/install-deps.sh wheel fetches the Python package ziglang)" >&2
  exit 3
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ZIG_GLOBAL_CACHE_DIR=$work/cache ZIG_LOCAL_CACHE_DIR=$work/cache
echo 'int main(void) { return 0; }' > "$work/empty.c"
for pie in -pie -no-pie; do
  "$zig" cc -target "$arch-linux-gnu.$glibc" $pie "$work/empty.c" -o "$work/empty"
done

case $arch in
x86_64) loader=ld-linux-x86-64.so.2 ;;
aarch64) loader=ld-linux-aarch64.so.1 ;;
*) echo "glibc-stubs: no rule for $arch" >&2; exit 2 ;;
esac
take() {  # file in zig's cache, its name in the folder
  local found
  found=$(find "$work/cache" -name "$1" | head -n 1)
  [ -n "$found" ] || { echo "glibc-stubs: zig made no $1" >&2; exit 1; }
  cp "$found" "$work/made/$2"
}
mkdir -p "$work/made"
for file in crt1.o Scrt1.o libc_nonshared.a libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1; do take $file $file; done
take 'libld.so.?' $loader
for library in libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1; do ln -s $library "$work/made/${library%.*}"; done
# Before glibc 2.34 threads and dlopen were in libraries of their own: whoever asks for libc gets those that it uses.
echo "GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( libpthread.so.0 libdl.so.2 $loader ) )" > "$work/made/libc.so"
# A compiler for another machine looks for the linker of -fuse-ld=lld where -B points.
if command -v ld.lld >/dev/null; then ln -s "$(command -v ld.lld)" "$work/made/ld.lld"; fi
mkdir -p "$(dirname "$folder")"
rm -rf "$folder"
mv "$work/made" "$folder"
