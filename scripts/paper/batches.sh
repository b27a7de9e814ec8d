#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Largest batch in 16 GB with one extra forward pass, figure 6 of the paper: six networks, all strategies, by the accounting of
# the paper's artifact (paper) and by the physical peak (normal). Settings and how to resume: lib.sh.
. "$(dirname "$0")/lib.sh"
open_csv batches network,accounting,strategy,status,max_batch,upper_bound,overhead,peak_bytes,seconds,bound_covers "$@"

# one NETWORK ACCOUNTING STRATEGY
one() {
    "$checkmate" max-batch "$1" --granularity layer --memory 16GB --compute-limit extra-forward --accounting "$2" \
        --strategy "$3" --time-limit "$batch_seconds" --json > "$temporary/out" 2> "$temporary/err" || case $? in
        3 | 4) ;;
        *)
            cat "$temporary/err" >&2
            exit 1
            ;;
        esac
    add "$1,$2,$3,$(value status "$temporary/out"),$(value max_batch "$temporary/out"),$(value upper_bound "$temporary/out"),$(value overhead "$temporary/out"),$(value peak_bytes "$temporary/out"),$(value seconds "$temporary/out"),$(value bound_covers "$temporary/out")"
    say "$(tail -n 1 "$csv")"
}

for strategy in checkpoint-all checkpoint-all-ap chen-sqrt chen-sqrt-ap chen-greedy chen-greedy-ap griewank auto; do
    for network in VGG19 vgg_unet segnet fcn_8_vgg MobileNet ResNet50; do
        for accounting in paper normal; do
            known "$network,$accounting,$strategy," || one $network $accounting $strategy
        done
    done
done
sh scripts/paper/batches_figure.sh
