#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the frontier-advancing stages are worth, section 4.6 and appendix A of the paper: the relaxation and the time to a
# proof with the program unpartitioned, in stages as published, and in stages tightened. Settings and how to resume: lib.sh.
. "$(dirname "$0")/lib.sh"
open_csv stages graph,operators,budget,formulation,relaxation_cost,best_cost,gap_ratio,ilp_status,ilp_bound,ilp_seconds "$@"

# solve FILE BUDGET STRATEGY FORMULATION OUTPUT
solve() {
    "$checkmate" solve "$1" --budget "$2" --strategy "$3" --formulation "$4" --time-limit "$stages_seconds" --json > "$5" \
        2> "$temporary/err" || case $? in
        3 | 4) ;;
        *)
            cat "$temporary/err" >&2
            exit 1
            ;;
        esac
}

# compare NAME FILE BUDGET
compare() {
    operators=$("$checkmate" graph "$2" | awk '$1 == "operators" { print $2 }')
    for formulation in frontier paper unpartitioned; do
        if known "$1,$operators,$3,$formulation,"; then
            continue
        fi
        solve "$2" "$3" lp-bound $formulation "$temporary/relaxation"
        solve "$2" "$3" ilp $formulation "$temporary/program"
        relaxation=$(value bound_cost "$temporary/relaxation")
        best=$(value cost "$temporary/program")
        ratio=$(awk -v a="$best" -v b="$relaxation" 'BEGIN { if (a != "" && b > 0) printf "%.4f", a / b }')
        add "$1,$operators,$3,$formulation,$relaxation,$best,$ratio,$(value status "$temporary/program"),$(value bound_cost "$temporary/program"),$(value seconds "$temporary/program")"
        say "$(tail -n 1 "$csv")"
    done
}

for layers in 4 8 16; do
    chain=$work/chain-$layers.json
    sh bench/chain_graph.sh $layers > "$chain"
    for budget in 4 5 6; do
        compare unit-chain-$layers "$chain" $budget
    done
done
compare VGG16 "$(layer_graph VGG16 256 flops)" 90%
compare vgg_unet "$(layer_graph vgg_unet 32 flops)" 60%
