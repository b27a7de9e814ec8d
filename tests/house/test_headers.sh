#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every public header compiles alone, twice, as C17 and as C++17, with warnings as errors.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
count=0
for header in "$CKM_SOURCE_DIR"/include/checkmate/*.h; do
    name=$(basename "$header")
    # Included twice: the guard is part of the contract.
    printf '#include <checkmate/%s>\n#include <checkmate/%s>\n' "$name" "$name" >"$scratch/alone.c"
    cp "$scratch/alone.c" "$scratch/alone.cc"
    flags="-I$CKM_SOURCE_DIR/include -Wall -Wextra -Wpedantic -Werror -fsyntax-only"
    ${CKM_CC:-cc} -std=c17 $flags -Wstrict-prototypes -Wundef "$scratch/alone.c" || { echo "$name fails as C17"; exit 1; }
    if command -v "${CKM_CXX:-c++}" >/dev/null; then
        ${CKM_CXX:-c++} -std=c++17 $flags "$scratch/alone.cc" || { echo "$name fails as C++17"; exit 1; }
    fi
    count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "no public headers found"; exit 1; }
command -v "${CKM_CXX:-c++}" >/dev/null || echo "skipped in part: no C++ compiler, checked as C17 only"
echo "$count public headers compile alone"
