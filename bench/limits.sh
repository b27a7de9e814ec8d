#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Holds the time limit: every strategy on graphs with half a second, at 50 % of the peak without rematerialization and at 1.25 times the
# memory floor. Names on standard error what took more than a second longer, with seconds of wall time and of the processor; prints how
# many solves there were, how many were late and the longest; ends with status 1 if one was. Wall time, so a quiet machine is needed;
# CKM names another program than build/checkmate.
#
#   bench/limits.sh [GRAPH...]     those of bench/graphs
set -eu
LC_ALL=C
export LC_ALL
bench=$(cd "$(dirname "$0")" && pwd)
ckm=${CKM:-$bench/../build/checkmate}
limit=0.5 most=1.5
[ $# -gt 0 ] || set -- "$bench"/graphs/*.json
work=$(mktemp -d "${TMPDIR:-/tmp}/checkmate-limits.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
${CC:-cc} -std=c17 -D_POSIX_C_SOURCE=200809L -O2 "$bench/measure.c" -o "$work/measure"

for graph; do
    [ -r "$graph" ] || { echo "limits.sh: cannot read $graph" >&2; exit 2; }
    floor=$("$ckm" solve "$graph" --strategy checkpoint-all --budget 100% --json |
        sed -n 's/.*"floor_bytes": \([0-9]*\).*/\1/p')
    for strategy in $("$ckm" strategies | cut -d' ' -f1); do
        for budget in 50% $((floor + floor / 4)); do
            "$work/measure" "$work/out" "$work/err" "$ckm" solve "$graph" --strategy "$strategy" --budget "$budget" \
                --time-limit "$limit" --threads 2 >"$work/figures" || true
            awk -v most="$most" -v what="$strategy, $budget, $(basename "$graph")" \
                '{ print $1, what } $1 > most { printf "%s: %.2f s, processor %.2f s\n", what, $1, $4 >"/dev/stderr" }' \
                "$work/figures" >>"$work/all"
        done
    done
done
sort -n "$work/all" | awk -v limit="$limit" -v most="$most" '
    { late += $1 > most; longest = $1; $1 = ""; what = $0 }
    END { printf "%d solves of %s s, later than %s s: %d, longest %.2f s:%s\n", NR, limit, most, late, longest, what; exit late > 0 }'
