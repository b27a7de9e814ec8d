#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares the layer-level and the operator-level training graph of a few networks at equal memory: prints the tables of
# docs/OPERATOR-GRAPH.md.
#   CHECKMATE=build/checkmate   the program
#   SECONDS_EACH=10             time limit of a solve
#   NETWORKS="VGG16:64 ..."     networks and batches
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
. scripts/lib.sh
checkmate=${CHECKMATE:-build/checkmate}
seconds=${SECONDS_EACH:-10}
networks=${NETWORKS:-VGG16:64 MobileNet:128 ResNet50:64 DenseNet121:64 vgg_unet:16 segnet:16}
budgets='80 60 40 30'
need_program "$checkmate"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

gigabytes() {
    awk -v bytes="$1" 'BEGIN { printf "%.2f", bytes / 1e9 }'
}

# solve GRAPH BYTES: "overhead %", or why there is none.
solve() {
    status=0
    "$checkmate" solve "$1" --budget "$2" --time-limit "$seconds" --json > "$work/result" 2> "$work/messages" || status=$?
    case $status in
    0) awk -v x="$(value overhead "$work/result")" 'BEGIN { printf (x >= 0.1 ? "%.1f %%" : "%.2f %%"), 100 * x }' ;;
    3) printf 'none fits' ;;
    4) printf 'none found' ;;
    *)
        cat "$work/messages" >&2
        return 1
        ;;
    esac
}

for network in $networks; do
    name=${network%:*}
    for level in layer op; do
        "$checkmate" graph "$name" --batch "${network#*:}" --granularity "$level" -o "$work/$name.$level.json"
        status=0
        # Nothing fits no memory (3): the proof gives the floor, and the peak is there all the same.
        "$checkmate" solve "$work/$name.$level.json" --budget 0 --json \
            > "$work/$name.$level.facts" 2> "$work/messages" || status=$?
        [ "$status" -eq 3 ] || { cat "$work/messages" >&2; exit 1; }
    done
done

echo '| network | batch | operators, layer | operators, op | peak, layer | peak, op | floor, layer | floor, op | floor, op / layer |'
echo '|---|--:|--:|--:|--:|--:|--:|--:|--:|'
for network in $networks; do
    name=${network%:*}
    printf '| %s | %s' "$name" "${network#*:}"
    for level in layer op; do
        printf ' | %s' "$("$checkmate" graph "$work/$name.$level.json" | sed -n 's/^operators *\([0-9]*\).*/\1/p')"
    done
    for member in baseline_peak_bytes floor_bytes; do
        for level in layer op; do
            printf ' | %s' "$(gigabytes "$(value "$member" "$work/$name.$level.facts")")"
        done
    done
    awk -v a="$(value floor_bytes "$work/$name.layer.facts")" -v b="$(value floor_bytes "$work/$name.op.facts")" \
        'BEGIN { printf " | %.0f %% |\n", 100 * b / a }'
done

echo
printf '| network | graph |'
for budget in $budgets; do
    printf ' %s %% |' "$budget"
done
printf '\n|---|---|'
for budget in $budgets; do
    printf -- '--:|'
done
echo
for network in $networks; do
    name=${network%:*}
    peak=$(value baseline_peak_bytes "$work/$name.layer.facts")
    for level in layer op; do
        printf '| %s | %s |' "$name" "$level"
        for budget in $budgets; do
            printf ' %s |' "$(solve "$work/$name.$level.json" $((peak / 100 * budget)))"
        done
        echo
    done
done
