#!/usr/bin/env bash
# suite.sh ARCHIVE -- prints the folder with the files of a suite: build/suites/NAME, unpacked at the first call.
#
# Twenty steps of `make test` read the same three archives; unpacking one takes as long as running some hundred of its tests.
# The folder is renamed into place when it is whole; a changed archive is unpacked again.
set -eu
archive=$(realpath "$1")
cd "$(dirname "$0")/../.."
folder=$PWD/build/suites/$(basename "${archive%%.tar*}")
mkdir -p build/suites
stamp=$(stat -c '%n %s %Y' "$archive")
exec 9>"$folder.lock"
flock 9
if [ "$(cat "$folder/.archive" 2>/dev/null)" != "$stamp" ]; then
  rm -rf "$folder" "$folder.part"
  mkdir "$folder.part"
  tar -xJf "$archive" -C "$folder.part"
  printf '%s\n' "$stamp" >"$folder.part/.archive"
  mv "$folder.part" "$folder"
fi
printf '%s\n' "$folder"
