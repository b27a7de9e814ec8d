#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Failing calls in the library use CKM_I_CHECK and CKM_I_TRY, and the check notices each older way of writing them, but
# not what does something else.
set -eu
check="$CKM_SOURCE_DIR/scripts/check_status.sh"
sh "$check" "$CKM_SOURCE_DIR" || { echo "the rule for failing calls is broken, see above" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/src/plan" "$scratch/src/cli"

# plant EXPECTED LINE...: a file of these lines must fail with that message at its second line; "" is none.
plant() {
    expected=$1
    shift
    printf '%s\n' '{' "$@" '}' >"$scratch/src/plan/plan.c"
    found=0
    sh "$check" "$scratch" >"$scratch/out" || found=1
    if [ -z "$expected" ]; then
        [ $found -eq 0 ] || { echo "noticed without a reason:"; cat "$scratch/src/plan/plan.c" "$scratch/out"; exit 1; }
    else
        [ $found -eq 1 ] || { echo "not noticed:"; cat "$scratch/src/plan/plan.c"; exit 1; }
        grep -q "^src/plan/plan.c:2: .*$expected" "$scratch/out" || { echo "unexpected message:"; cat "$scratch/out"; exit 1; }
    fi
}

plant 'early return' '    if (status != CKM_OK) {' '        return status;' '    }'
plant 'jump' '        if (status != CKM_OK) {' '            goto cleanup;' '        }'
plant 'chain' '    if (status == CKM_OK) {' '        status = next(err);' '    }'
plant 'chain' '    if (status == CKM_OK && n > 0) {' '        status = next(n,' '                      err);' '    }'
plant 'loop' '    for (int i = 0; status == CKM_OK && i < n; i++) {'
plant 'loop' '    for (int i = 0; i < n && status == CKM_OK; i++) {'
plant 'loop' '    while (status == CKM_OK) {'
plant 'by ?:' '    return status == CKM_OK ? next(err) : status;'
plant 'by ?:' '    status = status == CKM_OK && n > 0 ? next(err) : status;'
plant '' '    if (status != CKM_OK) {' '        free(job);' '        return status;' '    }'
plant '' '    if (status != CKM_OK) {' '        return ckm_i_error_in_file(err, status, path);' '    }'
plant '' '    if (status == CKM_OK) {' '        status = hand_out(err);' '        signal();' '    }'
plant '' '    if (status == CKM_OK) {' '        status = hand_out(err);' '    } else {' '        signal();' '    }'
plant '' '    if (z->status == CKM_OK) {' '        z->status = add(z);' '    }'
plant '' '    while (z->status == CKM_OK) {' '    for (; *z.status == CKM_OK;) {' '    return status == CKM_OK ? peak : INT64_MAX;'
printf '    while (status == CKM_OK) {\n' >"$scratch/src/plan/skeleton.c.in"
if sh "$check" "$scratch" >"$scratch/out"; then echo "not noticed in a skeleton"; exit 1; fi
rm "$scratch/src/plan/skeleton.c.in"
# The program sees public headers only, and writes it out.
plant ''
printf '    if (status != CKM_OK) {\n        return status;\n    }\n' >"$scratch/src/cli/main.c"
sh "$check" "$scratch" || { echo "the program may"; exit 1; }
echo "failing calls use CKM_I_CHECK and CKM_I_TRY"
