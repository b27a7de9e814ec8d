#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All that is known of a kind of operator is in its record: no table keyed by the names of kinds, no comparison of names.
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
# Where kernels and records are, tables by kind are what they consist of: operators, and the folder of a back end.
FNR == 1 {
    split(FILENAME, path, "/")
    has_tables = path[2] == "ops" || (path[2] == "run" && path[4] != "" && path[3] !~ /^(backend|data|session|train)$/)
    in_names = 0
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
# Two lines and more of a list that are names of kinds.
{
    name = $0
    gsub(/^[ \t]*"|",?[ \t]*(};)?$/, "", name)
    is_name = $0 ~ /^[ \t]*"[a-z0-9_]+",?[ \t]*(};)?$/ && (name in kind)
    if (is_name && in_names) {
        complain("a row for \"" name "\": what is known of a kind belongs into its record (graph/op_class.h)")
    }
    in_names = is_name
}
# A table by number, or a switch.
!has_tables && /(\[|\{[ \t]*|case[ \t]+)CKM_I_OP_[a-z]/ {
    complain("a row for a kind: what is known of a kind belongs into its record (graph/op_class.h)")
}
/str(n?)cmp\([^)]*op_class->kind/ {
    complain("kinds are compared by number: op->op_class->id == CKM_I_OP_<kind>")
}
END {
    exit bad ? 1 : 0
}'
