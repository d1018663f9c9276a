#!/usr/bin/env bash
# deb.sh FOLDER -- Debian packages for the release of this machine, in FOLDER:
#
#   tenon          the program with tenon-codegen, tenon-serve and tenon-tune, manual pages and completions
#   libtenon0      the shared library
#   libtenon-dev   headers, archives, pkg-config and CMake files
#   python3-tenon  the Python package
#
# `cmake --install` into an empty folder decides what there is and where; this sorts it into packages.  What they depend on is what
# dpkg-shlibdeps says of the programs.  The same sources give the same bytes: times are the last commit's, or SOURCE_DATE_EPOCH.
# MAINTAINER is the field of that name.
set -eu -o pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
build=build/deb-build
version=$(sed -n 's/^#define TENON_VERSION  *"\(.*\)"/\1/p' include/tenon/tenon.h)
architecture=$(dpkg --print-architecture) libdir=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
maintainer=${MAINTAINER:-Tenon maintainers <maintainers@tenon.invalid>}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH
umask 022

mkdir -p "$build"
if ! cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr >"$build/configure.log" 2>&1; then
  cat "$build/configure.log" >&2
  exit 1
fi
programs=(tenon_cli tenon-codegen tenon-serve)
if ninja -C "$build" -t query tenon-tune >/dev/null 2>&1; then programs+=(tenon-tune); fi  # where SQLite is
cmake --build "$build" -j"${JOBS:-$(nproc)}" --target tenon_shared tenon_static tenon_runtime "${programs[@]}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work/all cmake --install "$build" >"$work/install.log" || { cat "$work/install.log" >&2; exit 1; }

# ---- sorting ----
take() {  # package, paths in the installed tree
  local package=$1 path
  shift
  for path in "$@"; do
    mkdir -p "$work/$package/$(dirname "$path")"
    mv "$work/all/$path" "$work/$package/$path"
  done
}
mapfile -t library < <(cd "$work/all" && ls -d "$libdir"/libtenon.so.*)
take libtenon0 "${library[@]}"
take libtenon-dev usr/include "$libdir" usr/share/man/man3
take tenon usr/bin usr/share/man usr/share/bash-completion usr/share/zsh usr/share/fish
mkdir -p "$work/tenon/usr/share/zsh" "$work/python3-tenon/usr/lib/python3/dist-packages/tenon"
mv "$work/tenon/usr/share/zsh/site-functions" "$work/tenon/usr/share/zsh/vendor-completions"
cp python/tenon/*.py python/tenon/py.typed "$work/python3-tenon/usr/lib/python3/dist-packages/tenon"
mkdir -p "$work/python3-tenon/usr/lib/python3/dist-packages/tenon/serve"
cp python/tenon/serve/*.py "$work/python3-tenon/usr/lib/python3/dist-packages/tenon/serve"
printf '[torch_dynamo_backends]\ntenon = tenon.torch_backend:compile_fx\n' >"$work/entry_points.txt"
info=$work/python3-tenon/usr/lib/python3/dist-packages/tenon-$version.dist-info
mkdir -p "$info"
printf 'Metadata-Version: 2.1\nName: tenon\nVersion: %s\n' "$version" >"$info/METADATA"
mv "$work/entry_points.txt" "$info/entry_points.txt"
echo deb >"$info/INSTALLER"
take documents usr/share/doc/tenon
left=$(find "$work/all" ! -type d)
[ -z "$left" ] || { echo "deb: in no package: $left" >&2; exit 1; }

strip --strip-unneeded "$work"/libtenon0/"$libdir"/*.so.* "$work"/tenon/usr/bin/*
strip --strip-debug --enable-deterministic-archives "$work"/libtenon-dev/"$libdir"/*.a
chmod 644 "$work"/libtenon0/"$libdir"/*.so.*.*
find "$work" -path '*/share/man/*' -name '*.[0-9]' -exec gzip -9n {} +

# ---- fields ----
depends() {  # patterns of programs: what dpkg-shlibdeps says
  mkdir -p "$work/debian"
  printf 'Source: tenon\n\nPackage: tenon\nArchitecture: any\n' >"$work/debian/control"
  (
    cd "$work"
    # shellcheck disable=SC2068
    dpkg-shlibdeps -O $@ 2>shlibdeps.log || { cat shlibdeps.log >&2; exit 1; }
  ) | sed -n 's/^shlibs:Depends=//p'
}
package() {  # name, architecture, section, field lines, description
  local name=$1 of=$2 section=$3 fields=$4 text=$5 doc=$work/$1/usr/share/doc/$1
  mkdir -p "$work/$name/DEBIAN" "$doc"
  {
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Tenon\n\n'
    printf 'Files: *\nCopyright: %s the Tenon authors\nLicense: Apache-2.0\n' "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y)"
    printf ' On Debian systems the licence is in /usr/share/common-licenses/Apache-2.0.\n'
  } >"$doc/copyright"
  printf 'tenon (%s) stable; urgency=medium\n\n  * See CHANGELOG.md of the package tenon.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
  (cd "$work/$name" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$work/$name/DEBIAN/md5sums"
  {
    printf 'Package: %s\nSource: tenon\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "$name" "$version" "$of" "$maintainer"
    printf 'Installed-Size: %s\nSection: %s\nPriority: optional\n%s\nDescription: %s\n' "$(du -sk "$work/$name/usr" | cut -f1)" "$section" "$fields" "$text"
  } >"$work/$name/DEBIAN/control"
  find "$work/$name" -newermt "@$SOURCE_DATE_EPOCH" -print0 | xargs -0r touch -h -d "@$SOURCE_DATE_EPOCH"
  dpkg-deb --root-owner-group -Zxz --build "$work/$name" "$folder/${name}_${version}_$of.deb" >/dev/null
  echo "$folder/${name}_${version}_$of.deb"
}
about=' Tenon compiles models of ONNX, PyTorch, TensorFlow Lite and StableHLO to
 machine code, C, OpenCL and CUDA.'

mkdir -p "$work/tenon/usr/share/doc"
mv "$work/documents/usr/share/doc/tenon" "$work/tenon/usr/share/doc/tenon"
rm "$work/tenon/usr/share/doc/tenon/LICENSE"
of_library=$(depends "libtenon0/$libdir/libtenon.so.*.*")
of_programs=$(depends 'tenon/usr/bin/*')
mkdir -p "$work/libtenon0/DEBIAN"
echo "libtenon 0 libtenon0 (>= $version)" >"$work/libtenon0/DEBIAN/shlibs"
echo 'activate-noawait ldconfig' >"$work/libtenon0/DEBIAN/triggers"
# Byte code is made when the package is installed, and removed with it, as Debian's Python policy says.
mkdir -p "$work/python3-tenon/DEBIAN"
# shellcheck disable=SC2016
printf '#!/bin/sh\nset -e\nif [ "$1" = configure ] && command -v py3compile >/dev/null; then py3compile -p python3-tenon; fi\n' >"$work/python3-tenon/DEBIAN/postinst"
printf '#!/bin/sh\nset -e\nif command -v py3clean >/dev/null; then py3clean -p python3-tenon; fi\n' >"$work/python3-tenon/DEBIAN/prerm"
chmod 755 "$work"/python3-tenon/DEBIAN/{postinst,prerm}
package tenon "$architecture" science "Depends: $of_programs" "compiler for AI models
$about
 .
 This package has the program tenon, tenon-codegen, which makes machine code,
 tenon-serve, which serves models over HTTP, and tenon-tune, which searches
 for schedules."
package libtenon0 "$architecture" libs "Depends: $of_library
Recommends: tenon (= $version)
Multi-Arch: same" "compiler for AI models (library)
$about
 .
 This package has the shared library. It makes machine code with tenon-codegen,
 which is in the package tenon."
package libtenon-dev "$architecture" libdevel "Depends: libtenon0 (= $version), zlib1g-dev
Multi-Arch: same" "compiler for AI models (development files)
$about
 .
 This package has the headers, the archives, and files for pkg-config and CMake."
package python3-tenon all python "Depends: python3 (>= 3.9), python3-numpy, libtenon0 (>= $version)
Recommends: tenon" "compiler for AI models (Python)
$about
 .
 This package has the Python package tenon."
