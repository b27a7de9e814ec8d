#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The gain of exchanging gradients between the operators of the backward pass: normal steps alternate with steps in
# which hold.c lets an exchange progress only while its end is waited for. Prints a table: medians over the rounds, quartiles of their ratios.
#   CHECKMATE=build/checkmate   the program, built with -DCKM_MPI=ON
#   OVERLAP_NETWORKS="..."      NETWORK:HEIGHT,WIDTH,CHANNELS:BATCH, with blanks between; the batch is that of a process
#   OVERLAP_RANKS=2             processes
#   OVERLAP_ROUNDS=9            turns
#   OVERLAP_STEPS=10            steps of a run
#   OVERLAP_BUDGET=100%         of a rank
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/../.."
. scripts/lib.sh
checkmate=${CHECKMATE:-build/checkmate}
networks=${OVERLAP_NETWORKS:-MobileNet:96,96,3:16 VGG16:32,32,3:8}
ranks=${OVERLAP_RANKS:-2}
rounds=${OVERLAP_ROUNDS:-9}
steps=${OVERLAP_STEPS:-10}
budget=${OVERLAP_BUDGET:-100%}
need_program "$checkmate"
command -v mpirun >/dev/null || { echo "overlap.sh: mpirun is missing: scripts/setup.sh mpi installs it" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mpicc -O2 -shared -fPIC -o "$work/hold.so" bench/mpi/hold.c

# train NAME MPIRUN_OPTIONS...: one run; its median step in ms goes to NAME's file.
train() {
    name=$1
    shift
    mpirun --allow-run-as-root --oversubscribe -n "$ranks" "$@" "$checkmate" train "$network" --data synthetic --input-shape "$shape" \
        --batch "$batch" --samples $((batch * ranks * steps)) -j 1 --costs flops --budget "$budget" --time-limit 1 --steps "$steps" --json \
        >"$work/result" 2>"$work/error" || { cat "$work/error" >&2; exit 1; }
    value step_seconds "$work/result" | awk '{ printf "%.2f\n", $1 * 1000 }' >>"$work/$name"
}
quantile() { sort -n "$2" | awk -v q="$1" '{ x[NR] = $1 } END { printf "%s", x[int(q * (NR - 1) + 1.5)] }'; }

echo "| network | input, batch a process | ranks | with overlap, ms | without, ms | with over without |"
echo '|---|---|---|---|---|---|'
for row in $networks; do
    network=${row%%:*}
    batch=${row##*:}
    shape=${row#*:}
    shape=${shape%:*}
    rm -f "$work"/overlapped "$work"/held
    for round in $(seq "$rounds"); do
        train overlapped
        train held -x LD_PRELOAD="$work/hold.so"
    done
    paste "$work/overlapped" "$work/held" | awk '{ printf "%.3f\n", $1 / $2 }' >"$work/ratios"
    echo "| $network | $(echo "$shape" | tr , x), $batch | $ranks | $(quantile 0.5 "$work/overlapped") | $(quantile 0.5 "$work/held") |" \
        "$(quantile 0.5 "$work/ratios") ($(quantile 0.25 "$work/ratios") to $(quantile 0.75 "$work/ratios")) |"
done
