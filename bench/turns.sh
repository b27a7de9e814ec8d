#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares two builds of the program in turns: training (the networks of docs/TRAINING.md, without rematerialization, so that
# both do the same), and what has no time limit: deriving a graph, a heuristic, the verifier. One process at a time, OLD and NEW
# in turns, so that what the machine does meanwhile falls on both. Times are the processor's, of all threads, so that others
# on the machine count little. Prints the median of the ratios NEW/OLD for each case, and the range of the middle half.
# Losses must be the same bits.
#
#   bench/turns.sh OLD NEW [ROUNDS]     ROUNDS: 9
set -eu
LC_ALL=C
export LC_ALL
[ $# -ge 2 ] || { sed -n '3,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
old=$(readlink -f "$1") new=$(readlink -f "$2") rounds=${3:-9}
for program in "$old" "$new"; do
    [ -x "$program" ] || { echo "turns.sh: $program is not a program" >&2; exit 1; }
done
bench=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/checkmate-turns.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
${CC:-cc} -std=c17 -D_POSIX_C_SOURCE=200809L -O2 "$bench/measure.c" -o "$work/measure"
cd "$work"

# Each prints processor seconds; what must be equal is in the file `same`.
train() {
    ./measure out err "$1" train "$network" --data synthetic --samples $((2 * batch)) --input-shape "$shape" --batch "$batch" \
        --budget 120% --costs flops --steps "$steps" --seed 1 --threads 2 --json >figures
    sed -n 's/.*"last_loss": \([^,}]*\).*/\1/p' out >same
    [ -s same ] || { cat err >&2; exit 1; }
    cut -d' ' -f4 figures
}
command_of() {
    program=$1
    # shellcheck disable=SC2086 # the words are arguments
    ./measure out err "$program" $arguments | cut -d' ' -f4
    cp out same
}

# compare NAME FUNCTION: a row.
compare() {
    : >ratios
    i=0
    while [ $i -lt "$rounds" ]; do
        a=$($2 "$old")
        cp same first
        b=$($2 "$new")
        cmp -s same first || { echo "turns.sh: $1: the two builds' results differ" >&2; differs=1; }
        awk -v a="$a" -v b="$b" 'BEGIN { print b / a, a, b }' >>ratios
        i=$((i + 1))
    done
    sort -g ratios | awk -v name="$1" '{ r[NR] = $1; a += $2; b += $3 }
        END { printf "| %s | %.4g | %.4g | %.3f | %.3f to %.3f |\n", name, a / NR, b / NR, r[int((NR + 1) / 2)], r[int((NR + 3) / 4)], r[int((3 * NR + 3) / 4)] }'
}

differs=0
echo "| processor time of | old, s | new, s | new / old | middle half |"
echo "|---|---|---|---|---|"
while read -r network shape batch steps; do
    compare "$steps steps of $network, batch $batch" train
done <<END
MobileNet 96,96,3 32 8
ResNet50 112,112,3 16 5
VGG16 64,64,3 32 5
vgg_unet 128,128,3 4 6
Swin-T 112,112,3 8 6
END
"$new" graph ResNet50 --batch 64 -o resnet.json >out
"$new" solve resnet.json --budget 100% -o resnet.schedule >out
for arguments in "graph ResNet50 --batch 2" "graph NASNetLarge --batch 2" "solve VGG16 --batch 8 --budget 70% --granularity layer --strategy chen-sqrt" "verify resnet.json resnet.schedule"; do
    compare "$arguments" command_of
done
exit $differs
