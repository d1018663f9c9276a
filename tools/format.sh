#!/usr/bin/env bash
# format.sh [--check] -- formats every C file of ours with clang-format, or says which are not.
set -eu
cd "$(dirname "$0")/.."
tool=clang-format
command -v clang-format-14 >/dev/null && tool=clang-format-14  # other versions differ in details
mapfile -t files < <(git ls-files -co --exclude-standard 'src/*.[ch]' 'include/*.h' 'tests/*.[ch]' 'examples/*.[ch]')
existing=()
for f in "${files[@]}"; do [ -e "$f" ] && existing+=("$f"); done
if [ "${1:-}" = --check ]; then
  "$tool" --dry-run --Werror "${existing[@]}"
  echo "format: ${#existing[@]} files are formatted"
else
  "$tool" -i "${existing[@]}"
fi
