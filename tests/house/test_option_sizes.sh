#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Structures of options can grow and every function that takes one is tested, and the check notices what breaks that.
set -eu
check="$CKM_SOURCE_DIR/scripts/check_options.sh"
sh "$check" "$CKM_SOURCE_DIR" || { echo "the rule for options is broken, see above" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# plant FILE EXPRESSION EXPECTED: with that change by sed, the check must fail with that message.
plant() {
    rm -rf "$scratch/include" "$scratch/tests"
    mkdir -p "$scratch/include" "$scratch/tests/unit/api"
    cp -r "$CKM_SOURCE_DIR/include/checkmate" "$scratch/include/"
    cp "$CKM_SOURCE_DIR/tests/unit/api/test_option_sizes.c" "$scratch/tests/unit/api/"
    sh "$check" "$scratch" >"$scratch/out" || { echo "the tree as it is fails:"; cat "$scratch/out"; exit 1; }
    sed "$2" "$scratch/$1" >"$scratch/changed"
    mv "$scratch/changed" "$scratch/$1"
    if sh "$check" "$scratch" >"$scratch/out"; then
        echo "not noticed: $2 in $1"
        exit 1
    fi
    grep -q -- "$3" "$scratch/out" || { echo "unexpected message for $2 in $1:"; cat "$scratch/out"; exit 1; }
}

plant include/checkmate/plan.h '/size_t size;/d' 'ckm_plan_options has an _INIT macro and does not begin with'
plant include/checkmate/solve.h 's/^#define CKM_SOLVE_OPTIONS_INIT/#define CKM_SOLVE_OPTIONS_START/' 'has no _INIT macro'
plant include/checkmate/plan.h 's/CKM_SIZED(ckm_plan_options)/CKM_SIZED(ckm_zoo_size)/' 'CKM_PLAN_OPTIONS_INIT is not CKM_SIZED'
plant include/checkmate/max_batch.h 's/const ckm_solve_options \*solve;/ckm_solve_options solve;/' 'by value'
plant include/checkmate/trainer.h 's/\*kernels;/*processors;/' 'no row for ckm_trainer_options.processors'
plant include/checkmate/plan.h 's/ckm_plan_create(/ckm_plan_invent(/' 'no row for ckm_plan_invent and its ckm_plan_options'
plant tests/unit/api/test_option_sizes.c '/ROW(session_time,/d' 'no row for ckm_session_time'
