#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is known of a kind of operator stands in its record: no table keyed by the names of kinds, no comparison of names.
# Usage: check_operators.sh [ROOT]. Prints one line for each place; exit status 1 when there is any. Readers of names may have
# both: the importers, which translate those of files, and the zoo, which translates those of layers. The program does not know
# operators; its options have names of their own.
set -eu
cd "${1:-$(dirname "$0")/..}"
kinds=$(sed -n '/^#define CKM_I_OP_KINDS/,/[^\\]$/p' src/graph/op_kinds.h | grep -o 'X([a-z0-9_]*)' | sed 's/X(//; s/)//' | sort -u)
[ -n "$kinds" ] || { echo "src/graph/op_kinds.h lists no kinds"; exit 1; }
find src -name '*.[ch]' ! -path 'src/import/*' ! -path 'src/zoo/*' ! -path 'src/cli/*' | LC_ALL=C sort | KINDS="$kinds" xargs awk '
BEGIN {
    n = split(ENVIRON["KINDS"], list, "\n")
    for (i = 1; i <= n; i++) {
        kind[list[i]] = 1
    }
}
function complain(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    bad = 1
}
# A row that begins with the name of a kind, or a list of such names.
/^[ \t]*(static const .*= *)?\{+"[a-z0-9_]+"[,}]/ {
    name = $0
    sub(/^[^"]*"/, "", name)
    sub(/".*/, "", name)
    if (name in kind) {
        complain("a row for \"" name "\": what is known of a kind belongs in its record (graph/op_class.h)")
    }
}
/str(n?)cmp\([^)]*op_class->kind/ {
    complain("kinds are compared by number: op->op_class->id == CKM_I_OP_<kind>")
}
END {
    exit bad ? 1 : 0
}'
