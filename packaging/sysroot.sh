#!/usr/bin/env bash
# sysroot.sh ARCH FOLDER PACKAGE... -- Debian packages of another architecture (arm64), unpacked into FOLDER.
#
#   packaging/sysroot.sh arm64 build/sysroot/aarch64 llvm-19-dev zlib1g-dev
#
# Uses the machine's own package sources, with lists of its own in FOLDER/.apt: nothing of the system is changed, no root is needed.
# The packages named alone are unpacked, not what they depend on.  Nothing is done where FOLDER has them all.  Exit status 3: they
# cannot be had.
set -eu -o pipefail
arch=$1 folder=$2
shift 2
if [ "$(cat "$folder/.packages" 2>/dev/null)" = "$*" ]; then exit 0; fi
command -v apt-get >/dev/null || { echo "sysroot: no apt-get: Debian packages are needed" >&2; exit 3; }
rm -rf "$folder"
mkdir -p "$folder/.apt"/{lists/partial,cache/archives/partial,debs}
folder=$(cd "$folder" && pwd)
touch "$folder/.apt/status"
apt=(-q -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o Dir::State="$folder/.apt" -o Dir::State::status="$folder/.apt/status"
  -o Dir::State::lists="$folder/.apt/lists" -o Dir::Cache="$folder/.apt/cache" -o APT::Sandbox::User=root -o Debug::NoLocking=1)
# A source that has nothing for this architecture is no reason to stop: what is missing is said below.
apt-get "${apt[@]}" update >"$folder/.apt/log" 2>&1 || true
if ! (cd "$folder/.apt/debs" && apt-get "${apt[@]}" download "$@" >>"$folder/.apt/log" 2>&1); then
  tail -n 3 "$folder/.apt/log" >&2
  echo "sysroot: these packages cannot be had for $arch: $*" >&2
  exit 3
fi
for deb in "$folder"/.apt/debs/*.deb; do dpkg-deb -x "$deb" "$folder"; done
rm -rf "$folder/.apt"
echo "$*" > "$folder/.packages"
