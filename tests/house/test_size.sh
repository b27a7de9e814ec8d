#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No module is above its limit of files and lines (scripts/size.txt), and the check sees one that is.
set -eu
cd "$CKM_SOURCE_DIR"
sh scripts/size.sh || { echo "a module has grown: shrink it, or raise its limit in scripts/size.txt and say why in the commit"; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/scripts" "$scratch/src/one" "$scratch/include" "$scratch/python/src" "$scratch/python/tests" "$scratch/tests" \
    "$scratch/bench" "$scratch/docs"
cp scripts/size.sh "$scratch/scripts/"
printf 'a\nb\n' >"$scratch/src/one/one.c"
sh "$scratch/scripts/size.sh" --update
sh "$scratch/scripts/size.sh" >"$scratch/out" || { cat "$scratch/out"; echo "above limits that were just made"; exit 1; }
awk 'BEGIN { for (i = 0; i < 100; i++) print i }' >"$scratch/src/one/two.c"
if sh "$scratch/scripts/size.sh" >"$scratch/out"; then
    echo "100 lines more were not seen"
    exit 1
fi
grep -q 'src/one .*above its limit' "$scratch/out" || { cat "$scratch/out"; exit 1; }
