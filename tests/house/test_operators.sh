#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No table is keyed by the names of kinds of operators and none are compared by name; the check notices both. A new operator
# begins as a copy of the skeleton.
set -eu
check="$CKM_SOURCE_DIR/scripts/check_operators.sh"
sh "$check" "$CKM_SOURCE_DIR" || { echo "operators are known by name somewhere, see above" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
plant() {
    rm -rf "$scratch/src"
    mkdir -p "$scratch/src/graph" "$scratch/src/run/session" "$scratch/src/import"
    cp "$CKM_SOURCE_DIR/src/graph/op_kinds.h" "$scratch/src/graph"
    printf '    {"Conv", "conv", convert},\n    {"conv", "Conv"},\n' >"$scratch/src/import/rows.c"
    printf '    {"accuracy", 1},\n    attr = text(op, "gather", 0);\n' >"$scratch/src/run/session/session.c"
    sh "$check" "$scratch" >"$scratch/out" || { echo "a clean tree fails:"; cat "$scratch/out"; exit 1; }
    printf '%s\n' "$1" >>"$scratch/src/run/session/session.c"
    if sh "$check" "$scratch" >"$scratch/out"; then
        echo "not noticed: $1"
        exit 1
    fi
    grep -q -- "$2" "$scratch/out" || { echo "unexpected message for $1:"; cat "$scratch/out"; exit 1; }
}
plant '    {"conv", RULE_HE},' 'a row for "conv"'
plant '    {"update_sgd"},' 'a row for "update_sgd"'
plant 'static const char *const kinds[] = {"cast", "identity"};' 'a row for "cast"'
plant '    if (strcmp(op->op_class->kind, "gather") == 0) {' 'compared by number'
plant '    if (strncmp("relu", op->op_class->kind, 4) == 0) {' 'compared by number'

plant 'static const char rule[CKM_I_OP_KIND_COUNT] = {[CKM_I_OP_conv] = 1};' 'a row for a kind'
plant '    {CKM_I_OP_conv, RULE_HE},' 'a row for a kind'
plant '    case CKM_I_OP_conv:' 'a row for a kind'
plant '    "conv",
    "relu"};' 'a row for "relu"'

# The skeleton under a new name: continuous integration builds it and runs its test; here, that it is complete.
mkdir -p "$scratch/tree/src/graph" "$scratch/tree/src/ops"
cp -r "$CKM_SOURCE_DIR/src/ops/skeleton" "$scratch/tree/src/ops"
cp "$CKM_SOURCE_DIR/src/graph/op_kinds.h" "$scratch/tree/src/graph"
make_new() {
    sh "$CKM_SOURCE_DIR/scripts/new_operator.sh" "$1" "$scratch/tree" >"$scratch/out" 2>&1
}
make_new trial_kind || { cat "$scratch/out"; exit 1; }
for file in src/ops/trial_kind/op_trial_kind.c src/ops/trial_kind/cpu_trial_kind.c tests/unit/ops/test_op_trial_kind.c; do
    [ -s "$scratch/tree/$file" ] || { echo "new_operator.sh made no $file"; exit 1; }
    ! grep -q skeleton "$scratch/tree/$file" || { echo "$file still speaks of the skeleton's name"; exit 1; }
done
[ "$(grep -c 'X(trial_kind)' "$scratch/tree/src/graph/op_kinds.h")" -eq 4 ] || { echo "not entered in op_kinds.h"; exit 1; }
for name in trial_kind conv Bad '' x_backward ../up; do
    if make_new "$name"; then
        echo "new_operator.sh takes the name '$name'"
        exit 1
    fi
done
echo "operators: known by their records, 9 planted side tables and comparisons were noticed; the skeleton is complete"
