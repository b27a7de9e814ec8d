#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shared library exports the functions of the public headers under version CHECKMATE_0, and nothing else.
set -eu
library="$CKM_BINARY_DIR/libcheckmate.so"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

nm -D --defined-only --with-symbol-versions "$library" | awk '$2 != "A" { print $3 }' >"$scratch/exported"
[ -s "$scratch/exported" ] || { echo "nothing is exported"; exit 1; }
# The sanitizers' own symbols are not ours to judge.
sed -i -e '/^__asan/d' -e '/^__ubsan/d' -e '/^__odr_asan/d' -e '/^__start_/d' -e '/^__stop_/d' "$scratch/exported"

if grep -v '@@CHECKMATE_0$' "$scratch/exported"; then
    echo "exported without version CHECKMATE_0, see above"
    exit 1
fi
if grep -v '^ckm_' "$scratch/exported" || grep '^ckm_i_' "$scratch/exported"; then
    echo "exported but internal, see above"
    exit 1
fi

# Declared functions: from CKM_API to the name before the first parenthesis, over line ends.
sed 's@//.*@@' "$CKM_SOURCE_DIR"/include/checkmate/*.h | grep -v '^ *#' | tr '\n' ' ' | sed 's/;/;\n/g' |
    sed -n 's/.*CKM_API [^(]*[ *]\(ckm_[a-z0-9_]*\)(.*/\1/p' | LC_ALL=C sort -u >"$scratch/declared"
sed 's/@@.*//' "$scratch/exported" | LC_ALL=C sort -u >"$scratch/defined"
if [ -n "$(LC_ALL=C comm -3 "$scratch/declared" "$scratch/defined")" ]; then
    echo "declared in public headers (left) but not exported, or exported (right) but not declared:"
    LC_ALL=C comm -3 "$scratch/declared" "$scratch/defined"
    exit 1
fi
# Before 1.0 a minor version may break programs, so the name that they are linked to has it.
version=$(sed -n 's/^#define CKM_VERSION_STRING "\(.*\)"/\1/p' "$CKM_SOURCE_DIR/include/checkmate/base.h")
case $version in
0.*) soname=libcheckmate.so.${version%.*} ;;
*) soname=libcheckmate.so.${version%%.*} ;;
esac
readelf -d "$library" | grep -q "SONAME.*\[$soname\]" || { echo "the soname is not $soname"; exit 1; }

# Debian's list of them, by which dpkg knows which version of the library a program needs.
sed -n 's/^ \(ckm_.*\)@CHECKMATE_0 .*/\1/p' "$CKM_SOURCE_DIR/debian/libcheckmate0.symbols" | LC_ALL=C sort >"$scratch/listed"
if [ -n "$(LC_ALL=C comm -3 "$scratch/listed" "$scratch/defined")" ]; then
    echo "in debian/libcheckmate0.symbols (left) but not exported, or exported (right) but not listed there with its first version:"
    LC_ALL=C comm -3 "$scratch/listed" "$scratch/defined"
    exit 1
fi
head -n 1 "$CKM_SOURCE_DIR/debian/libcheckmate0.symbols" | grep -q "^$soname " || { echo "debian/libcheckmate0.symbols is not of $soname"; exit 1; }
echo "$(wc -l <"$scratch/defined") symbols exported, all declared"
