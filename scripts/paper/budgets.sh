#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Overhead against budget, figure 5 of the paper, and the rows that table 2 is computed from: networks, costs, budgets, strategies.
# Settings and how to resume after an interruption: lib.sh.
. "$(dirname "$0")/lib.sh"
open_csv budgets network,batch,costs,step,budget_bytes,floor_bytes,peak_bytes,strategy,status,overhead,bound_overhead,bound_covers,seconds "$@"

strategies='checkpoint-all checkpoint-all-ap chen-sqrt chen-sqrt-ap chen-greedy chen-greedy-ap griewank lp-round auto'
steps=9  # budgets from the floor (0) to the peak (steps - 1); and one more, what checkpoint-all needs, which wastes some

# one NETWORK BATCH COSTS FILE STEP BUDGET FLOOR PEAK STRATEGY
one() {
    limit=$seconds
    [ "$3,$9" != flops,lp-round ] || limit=$lp_seconds
    "$checkmate" solve "$4" --budget "$6" --strategy "$9" --time-limit "$limit" --json > "$temporary/out" \
        2> "$temporary/err" || case $? in
        3 | 4) ;;
        *)
            cat "$temporary/err" >&2
            exit 1
            ;;
        esac
    bound=$(value bound_cost "$temporary/out")
    whole=$(value baseline_cost "$temporary/out")
    bound_overhead=$(awk -v b="$bound" -v w="$whole" 'BEGIN { if (b != "" && w > 0) printf "%.6f", b / w - 1 }')
    add "$1,$2,$3,$5,$6,$7,$8,$9,$(value status "$temporary/out"),$(value overhead "$temporary/out"),$bound_overhead,$(value bound_covers "$temporary/out"),$(value seconds "$temporary/out")"
    say "$(tail -n 1 "$csv")"
}

# peak_of STRATEGY FILE: in bytes, when it may take what it likes.
peak_of() {
    "$checkmate" solve "$2" --budget 1000% --strategy "$1" --json > "$temporary/facts" 2> /dev/null || true
    value peak_bytes "$temporary/facts"
}

# sweep NETWORK BATCH COSTS FILE
sweep() {
    # shellcheck disable=SC2046
    set -- "$1" "$2" "$3" "$4" $(describe "$4") "$(peak_of checkpoint-all "$4")"
    step=$steps
    while [ $step -ge 0 ]; do
        budget=$(awk -v a="$5" -v b="$6" -v k=$step -v n=$((steps - 1)) -v most="$7" 'BEGIN {
            printf "%.0f", (k > n ? most : a + (b - a) * k / n) }')
        for strategy in $strategies; do
            known "$1,$2,$3,$step,$budget,$5,$6,$strategy," || one "$1" "$2" "$3" "$4" $step "$budget" "$5" "$6" "$strategy"
        done
        step=$((step - 1))
    done
}

# Costs measured on this machine at small batches, one line over the batch for every operator; its graph is that of the op
# level, which is what runs here.
measured() {
    profile=$work/$1-profile.json
    graph=$work/$1-$2-measured.json
    if [ ! -s "$profile" ]; then
        say "measuring $1"
        # shellcheck disable=SC2086
        "$checkmate" profile "$1" --batch $3 --fit "$4" --steps 5 -o "$profile" > /dev/null
    fi
    [ -s "$graph" ] || "$checkmate" graph "$1" --batch "$2" --costs "$profile" -o "$graph" > /dev/null
    sweep "$1" "$2" measured "$graph"
}

for network in VGG16:256 MobileNet:512 vgg_unet:32 VGG19:256 ResNet50:256; do
    sweep "${network%:*}" "${network#*:}" flops "$(layer_graph "${network%:*}" "${network#*:}" flops)"
done
for network in VGG16:256 MobileNet:512 vgg_unet:32; do
    sweep "${network%:*}" "${network#*:}" device:V100 "$(layer_graph "${network%:*}" "${network#*:}" device:V100)"
done
for network in VGG16:256 vgg_unet:32; do
    if [ -r "$instances/${network%:*}.json" ]; then
        sweep "${network%:*}" "${network#*:}" instance "$instances/${network%:*}.json"
    else
        say "skipped: $instances/${network%:*}.json is not there"
    fi
done
measured MobileNet 512 4 8
measured VGG16 256 1 2
measured vgg_unet 32 1 2
sh scripts/paper/budgets_figure.sh
