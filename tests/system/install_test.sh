#!/usr/bin/env bash
# install_test.sh -- installs, moves the tree elsewhere, and builds the examples against it as a user would:
# with pkg-config (shared, static) and with CMake's find_package.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
root=$PWD/build/install-test
rm -rf "$root"
mkdir -p "$root"
cmake --install build --prefix "$root/first" >"$root/install.log" 2>&1 || { cat "$root/install.log"; exit 1; }
if grep -q 'is not installed' "$root/install.log"; then
  cat "$root/install.log"
  exit 1
fi
mv "$root/first" "$root/moved"
prefix=$root/moved
passed=0
ok() { passed=$((passed + 1)); echo "ok $*"; }

libdir=$(dirname "$(find "$prefix" -name libtenon.so)")
export PKG_CONFIG_PATH=$libdir/pkgconfig
version=$(sed -n 's/^#define TENON_VERSION  *"\(.*\)"/\1/p' include/tenon/tenon.h)
[ "$(pkg-config --modversion tenon)" = "$version" ]
ok "pkg-config knows version $version"

for lang in c c++; do
  echo '#include <tenon/tenon.h>' >"$root/header.$lang"
  clang -x $lang -Wall -Wextra -Werror -pedantic -fsyntax-only $(pkg-config --cflags tenon) "$root/header.$lang"
  ok "the header alone is good $lang"
done

# A program whose own names are those of the library's insides: the archive must not clash with them.
cat >"$root/clash.c" <<'C'
#include <tenon/tenon.h>
int fail(void), arena_alloc(void), graph_create(void), op_table[3];
int fail(void) { return 0; }
int arena_alloc(void) { return 0; }
int graph_create(void) { return 0; }
int main(void) { return fail() + arena_alloc() + graph_create() + op_table[0]; }
C
gcc "$root/clash.c" -o "$root/clash" $(pkg-config --cflags tenon) \
  -Wl,--whole-archive "$libdir/libtenon.a" -Wl,--no-whole-archive -lz -lm -lpthread
"$root/clash"
ok "the archive's inner names do not clash"

# Every function of the header stands on its manual page.
man3=$(find "$prefix" -name tenon.3)
for f in $(sed -n 's/^TENON_API.*\b\(tenon_[a-z_0-9]*\)(.*/\1/p' include/tenon/tenon.h); do
  grep -q "$f" "$man3" || { echo "$f is not on tenon(3)"; exit 1; }
done
ok "tenon(3) has every function"

# shellcheck disable=SC2046
gcc -x c "$root/header.c" -x none -c -o "$root/header.o" $("$prefix/bin/tenon" config --cflags)
echo 'int main(void) { return 0; }' >"$root/config.c"
gcc "$root/config.c" -o "$root/config" $("$prefix/bin/tenon" config --cflags --libs --runtime)
"$root/config"
ok "tenon config, moved"

shopt -s nullglob
for src in examples/*.c; do
  name=$(basename "$src" .c)
  gcc -std=c11 -Wall -Wextra -Werror "$src" -o "$root/$name-shared" $(pkg-config --cflags --libs tenon) "-Wl,-rpath,$libdir" -lm
  ldd "$root/$name-shared" | grep "$libdir/libtenon.so.0" >/dev/null  # grep -q ends early, and ldd with it
  ok "$name with pkg-config, shared"
  gcc -std=c11 -Wall -Wextra -Werror "$src" -o "$root/$name-static" $(pkg-config --cflags tenon) \
    "$libdir/libtenon.a" -lz -lm -lpthread
  if ldd "$root/$name-static" | grep libtenon; then exit 1; fi
  ok "$name with the static archive"
done

mkdir "$root/consumer"
{
  echo 'cmake_minimum_required(VERSION 3.20)'
  echo 'project(consumer C)'
  echo 'find_package(tenon 0.1 REQUIRED)'
  echo 'find_library(M m)'
  for src in examples/*.c "$root/clash.c"; do
    name=$(basename "$src" .c)
    echo "add_executable($name $(realpath "$src"))"
    echo "target_link_libraries($name tenon::tenon \${M})"
    echo "add_executable($name-static $(realpath "$src"))"
    echo "target_link_libraries($name-static tenon::static)"
  done
} >"$root/consumer/CMakeLists.txt"
cmake -G Ninja -S "$root/consumer" -B "$root/consumer/build" "-DCMAKE_PREFIX_PATH=$prefix" >"$root/cmake.log"
cmake --build "$root/consumer/build" >>"$root/cmake.log" || { cat "$root/cmake.log"; exit 1; }
"$root/consumer/build/clash-static"
ok "find_package, shared and static"

if [ -x build/tenon ]; then
  "$prefix/bin/tenon" --version | grep -F "$version" >/dev/null
  ok "the installed program runs"
  for name in tenon.1 tenon-run.1 _tenon tenon.fish; do [ -s "$(find "$prefix" -name $name)" ]; done
  ok "the manual pages and completions are there"
fi
rm -rf "$root/consumer" "$root"/clash* "$prefix"
echo "$passed passed, 0 failed"
