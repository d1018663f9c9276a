#!/usr/bin/env bash
# format.sh [--check] -- formats every C file of ours with clang-format, or says which are not.
set -eu
cd "$(dirname "$0")/.."
tool=clang-format
command -v clang-format-14 >/dev/null && tool=clang-format-14  # other versions differ in details
mapfile -t files < <(find src include tests examples -name '*.[ch]' | sort)
if [ "${1:-}" = --check ]; then
  "$tool" --dry-run --Werror "${files[@]}"
  echo "format: ${#files[@]} files are formatted"
else
  "$tool" -i "${files[@]}"
fi
