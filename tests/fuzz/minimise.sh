#!/usr/bin/env bash
# minimise.sh BUILD [NAME...] -- writes tests/fuzz/corpus/NAME.tar.xz anew from build/fuzz/corpus/NAME and from what it holds.
#
# libFuzzer's -merge=1 keeps the smallest inputs that together reach all that is reached.  Inputs over INPUT_MAX bytes are left out, and
# of the rest the smallest up to CORPUS_MAX bytes are kept.  The archive has fixed times and owners, so the same inputs give the same file.
set -eu
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
shift
INPUT_MAX=8192 CORPUS_MAX=${CORPUS_MAX:-2000000}
names=("$@")
if [ $# = 0 ]; then
  for f in tests/fuzz/*.c; do names+=("$(basename "$f" .c)"); done
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p tests/fuzz/corpus
for name in "${names[@]}"; do
  old=$folder/$name.old new=$folder/$name
  mkdir "$old" "$new"
  [ ! -e "tests/fuzz/corpus/$name.tar.xz" ] || tar -xJf "tests/fuzz/corpus/$name.tar.xz" -C "$old"
  find "build/fuzz/corpus/$name" -type f -not -name .seeded -size -$((INPUT_MAX + 1))c -exec cp -t "$old" {} + 2>/dev/null || true
  FUZZ_SECONDS=20 "$build/fuzz-$name" -merge=1 -timeout=60 -rss_limit_mb=3072 -max_len=$INPUT_MAX "$new" "$old" >"$folder/log" 2>&1 || tail -n 5 "$folder/log"
  total=0
  while read -r bytes file; do
    total=$((total + bytes))
    ((total <= CORPUS_MAX)) || rm "$file"
  done < <(find "$new" -type f -printf '%s %p\n' | sort -n)
  (cd "$new" && find . -type f | LC_ALL=C sort | tar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644 -cf - -T - | xz -9e) >"tests/fuzz/corpus/$name.tar.xz"
  printf 'fuzz-%-10s %6d inputs of %6d, %8d bytes\n' "$name" "$(find "$new" -type f | wc -l)" "$(find "$old" -type f | wc -l)" "$(stat -c %s "tests/fuzz/corpus/$name.tar.xz")"
done
du -cb tests/fuzz/corpus/*.tar.xz | tail -n 1
