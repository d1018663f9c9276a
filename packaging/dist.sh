#!/usr/bin/env bash
# dist.sh FOLDER [COMMIT] -- the source tarball of a commit: FOLDER/tenon-VERSION.tar.xz and its SHA-256 beside it.
#
# LEVEL (6) is xz's.  It has what git tracks, in the folder tenon-VERSION, with the commit's time on every file: the same commit gives the same bytes.
set -eu -o pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd) commit=${2:-HEAD}
cd "$(dirname "$0")/.."
if ! git rev-parse --verify -q "$commit^{commit}" >/dev/null; then
  echo "dist: no commit $commit: a source tarball is made in a git checkout" >&2
  exit 1
fi
version=$(git show "$commit:include/tenon/tenon.h" | sed -n 's/^#define TENON_VERSION  *"\(.*\)"/\1/p')
name=tenon-$version
# One thread: the size of xz's blocks depends on how many there are.
git archive --format=tar --prefix="$name/" "$commit" | xz "-${LEVEL:-6}" -T1 >"$folder/$name.tar.xz.part"
mv "$folder/$name.tar.xz.part" "$folder/$name.tar.xz"
(cd "$folder" && sha256sum "$name.tar.xz" >"$name.tar.xz.sha256")
if [ "$commit" = HEAD ] && [ -n "$(git status --porcelain --untracked-files=no)" ]; then
  echo "dist: changes that are not committed are not in it" >&2
fi
echo "$folder/$name.tar.xz: $(stat -c %s "$folder/$name.tar.xz") bytes"
