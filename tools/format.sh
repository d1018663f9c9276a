#!/usr/bin/env bash
# format.sh [--check] -- formats every C file of ours with clang-format, or says which are not.
set -eu -o pipefail
cd "$(dirname "$0")/.."
tool=clang-format
command -v clang-format-14 >/dev/null && tool=clang-format-14  # other versions differ in details
mapfile -t files < <(find src include tests tools examples packaging -name '*.[ch]' -o -name '*.cc' -o -name '*.hpp' | sort)
if [ "${1:-}" != --check ]; then
  "$tool" -i "${files[@]}"
elif out=$("$tool" --dry-run --Werror "${files[@]}" 2>&1); then
  echo "format: ${#files[@]} files are formatted"
else
  printf '%s\n' "$out" | sed -n 's/^\([^ :]*:[0-9]*\):[0-9]*: error.*/\1: not formatted (make format)/p' | uniq
  exit 1
fi
