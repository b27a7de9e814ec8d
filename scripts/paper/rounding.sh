#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two-phase rounding of the relaxation, deterministic against random, an appendix of the paper: what fits the budget and at what
# cost, for five seeds. Settings and how to resume: lib.sh.
. "$(dirname "$0")/lib.sh"
open_csv rounding network,batch,budget_percent,strategy,seed,status,overhead,bound_overhead,seconds "$@"

# one NETWORK BATCH PERCENT STRATEGY SEED
one() {
    "$checkmate" solve "$(layer_graph "$1" "$2" flops)" --budget "$3%" --strategy "$4" --seed "$5" --time-limit "$lp_seconds" \
        --json > "$temporary/out" 2> "$temporary/err" || case $? in
        3 | 4) ;;
        *)
            cat "$temporary/err" >&2
            exit 1
            ;;
        esac
    bound=$(awk -v b="$(value bound_cost "$temporary/out")" -v w="$(value baseline_cost "$temporary/out")" 'BEGIN {
        if (b != "" && w > 0) printf "%.6f", b / w - 1 }')
    add "$1,$2,$3,$4,$5,$(value status "$temporary/out"),$(value overhead "$temporary/out"),$bound,$(value seconds "$temporary/out")"
    say "$(tail -n 1 "$csv")"
}

for network in VGG16:256:85,90,95 vgg_unet:32:50,60,70,80,90 MobileNet:512:30,50,70; do
    budgets=${network##*:}
    network=${network%:*}
    for percent in $(echo "$budgets" | tr ',' ' '); do
        for seed in 1 2 3 4 5; do
            key="${network%:*},${network#*:},$percent"
            if [ $seed = 1 ]; then
                for strategy in lp-round auto; do
                    known "$key,$strategy,1," || one "${network%:*}" "${network#*:}" "$percent" $strategy 1
                done
            fi
            known "$key,lp-random,$seed," || one "${network%:*}" "${network#*:}" "$percent" lp-random $seed
        done
    done
done
