#!/bin/sh
# prefix.sh NM OBJCOPY ARCHIVE -- puts tenon_rt_ in front of every name that the archive defines, but those of tenon_*.
set -e
map=$3.names
"$1" --defined-only --extern-only "$3" | awk 'NF == 3 && $3 !~ /^tenon_/ { print $3, "tenon_rt_" $3 }' | sort -u >"$map"
"$2" --redefine-syms="$map" "$3"
rm -f "$map"
