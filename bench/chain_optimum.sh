#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# chain_optimum.sh N BUDGET: the cost of the optimal binomial schedule of the graph that chain_graph.sh N makes, or
# nothing when the budget is below 4 bytes, what one backward operator touches.
#
# While the backward operator of a layer runs, its gradients and two outputs are in memory; the other BUDGET - 4 bytes
# hold outputs of earlier layers (checkpoints). g(l, s) is the least number of forward steps that visit l states in
# descending order from a state that is kept, with s checkpoints: the first one, placed at j, takes j steps, then come
# the states above it, itself, and those below it (Griewank & Walther 2000). The loss leaves one byte of room, which
# holds the output of the last but one layer, and the first pass is part of the step anyway.
set -eu
awk -v n="$1" -v budget="$2" '
function g(l, s,    j, cost, least) {
    if (l <= 1) return l
    if (s > l) s = l
    if (s <= 0) return l * (l + 1) / 2
    if ((l, s) in known) return known[l, s]
    least = l * (l + 1) / 2
    for (j = 1; j < l; j++) {
        cost = j + g(l - j, s - 1) + g(j - 1, s)
        if (cost < least) least = cost
    }
    known[l, s] = least
    return least
}
BEGIN { if (budget >= 4) print 2 * n + 1 + g(n - 1, budget - 4) - (n - 1) }'
