#!/bin/sh
# split.sh LD NM OBJCOPY AR OBJECT ARCHIVE -- adds OBJECT to the archive in pieces, one for each tenon_eval_ name that it defines.
#
# A linker takes a member whole: in one piece the table of evaluations would bring every evaluation into every program that is
# linked without --gc-sections.  OBJECT must be compiled with -ffunction-sections -fdata-sections.
set -e
folder=$6.pieces
rm -rf "$folder"
mkdir "$folder"
"$2" --defined-only --extern-only "$5" | awk '$3 ~ /^tenon_eval_/ { print $3 }' | while read -r name; do
  "$1" -r --gc-sections -e "$name" "$5" -o "$folder/$name.o"
  "$3" --strip-unneeded "$folder/$name.o" # what no piece refers to would still be looked for
done
"$4" qcs "$6" "$folder"/*.o
rm -rf "$folder"
