#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Times training steps in several processes against the same steps in one, in turns, and prints the table of
# docs/DISTRIBUTED.md: medians over the rounds of each run's median step, and the growth of the rank that grew the most.
#   CHECKMATE=build/checkmate   the program, built with -DCKM_MPI=ON
#   TABLE_NETWORKS="..."        NETWORK:HEIGHT,WIDTH,CHANNELS:BATCH, with blanks between; the batch is that of a process
#   TABLE_RANKS=2               processes
#   TABLE_ROUNDS=5              turns
#   TABLE_STEPS=10              steps of a run
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
. scripts/lib.sh
checkmate=${CHECKMATE:-build/checkmate}
networks=${TABLE_NETWORKS:-MobileNet:96,96,3:32 vgg_unet:128,128,3:4}
ranks=${TABLE_RANKS:-2}
rounds=${TABLE_ROUNDS:-5}
steps=${TABLE_STEPS:-10}
need_program "$checkmate"
command -v mpirun >/dev/null || { echo "mpi_table.sh: mpirun is missing: scripts/setup.sh mpi installs it" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# train NAME COMMAND...: one run; its median step in ms goes to NAME's file.
train() {
    name=$1
    shift
    "$@" train "$network" --data synthetic --input-shape "$shape" --batch "$batch" --samples $((batch * ranks * steps)) -j 1 \
        --costs flops --budget "$budget" --fused --time-limit 5 --steps "$steps" $extra --json >"$work/result" 2>"$work/error" ||
        { cat "$work/error" >&2; exit 1; }
    value step_seconds "$work/result" | awk '{ printf "%.1f\n", $1 * 1000 }' >>"$work/$name"
}
median() { sort -n "$1" | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }

echo "| network | input, batch a process | budget | one batch, ms | $ranks batches, one process, ms | $ranks processes, ms | samples/s, times one process | memory of a process, MB of budget |"
echo '|---|---|---|---|---|---|---|---|'
for row in $networks; do
    network=${row%%:*}
    batch=${row##*:}
    shape=${row#*:}
    shape=${shape%:*}
    for budget in 100% 70%; do
        rm -f "$work"/single "$work"/accumulated "$work"/ranks
        for round in $(seq "$rounds"); do
            extra=""
            train single "$checkmate"
            extra="--accumulate $ranks"
            train accumulated "$checkmate"
            extra=""
            train ranks mpirun --allow-run-as-root --oversubscribe -n "$ranks" "$checkmate"
        done
        memory=$(awk -v g="$(value anonymous_growth_bytes "$work/result")" -v k="$(value kernel_bytes "$work/result")" \
            -v b="$(value budget_bytes "$work/result")" 'BEGIN { printf "%.1f of %.1f", (g + k) / 1e6, b / 1e6 }')
        single=$(median "$work/single")
        accumulated=$(median "$work/accumulated")
        several=$(median "$work/ranks")
        times=$(awk -v a="$accumulated" -v r="$several" 'BEGIN { printf "%.2f", a / r }')
        echo "| $network | $(echo "$shape" | tr , x), $batch | $(echo "$budget" | sed 's/%/ %/') | $single | $accumulated | $several | $times | $memory |"
    done
done
