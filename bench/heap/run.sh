#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a training step takes from the C library's heap, outside the region that `checkmate train` plans: a run of
# 3 steps and one of 23, the difference over 20. Usage: bench/heap/run.sh PROGRAM "MODEL BATCH THREADS"...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -O2 -fPIC -shared -o "$folder/heap.so" "$here/heap.c"

# train MODEL BATCH THREADS STEPS: calls, bytes, most alive
train() {
    CKM_HEAP_FD=9 LD_PRELOAD="$folder/heap.so" "$program" train "$1" --data synthetic --samples "$2" --batch "$2" \
        --threads "$3" --steps "$4" --lr 0 --fused --costs flops >/dev/null 2>&1 9>"$folder/report"
    tail -1 "$folder/report"
}

echo "| network | batch | threads | allocations a step | kB a step | heap alive at most, MB, after 3 steps | after 23 |"
echo "|---|---|---|---|---|---|---|"
for case in "$@"; do
    # shellcheck disable=SC2086
    set -- $case
    short=$(train "$1" "$2" "$3" 3)
    long=$(train "$1" "$2" "$3" 23)
    echo "$short $long" | awk -v head="| $(basename "$1") | $2 | $3 |" \
        '{ printf "%s %.1f | %.1f | %.2f | %.2f |\n", head, ($4 - $1) / 20, ($5 - $2) / 20e3, $3 / 1e6, $6 / 1e6 }'
done
