#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# chain_graph.sh N: the training graph of a chain of N layers in checkmate-graph JSON; every operator, the loss
# and the backward operators included, costs 1 and puts out 1 byte. The backward operator of a layer reads the
# gradient that comes in, the layer's output and the next one's.
set -eu
awk -v n="$1" 'BEGIN {
    printf "{\"format\": \"checkmate-graph\", \"version\": 1, \"name\": \"unit-chain-%d\",\n \"tensors\": [", n
    for (i = 0; i <= 2 * n; i++) printf "%s{\"bytes\": 1}", i ? ", " : ""
    print "],\n \"ops\": ["
    for (i = 0; i < n; i++)
        printf "  {\"cost\": 1, \"inputs\": [%s], \"outputs\": [%d]},\n", i ? i - 1 : "", i
    printf "  {\"kind\": \"loss\", \"cost\": 1, \"inputs\": [%d], \"outputs\": [%d]}", n - 1, n
    for (i = n - 1; i >= 0; i--)
        printf ",\n  {\"kind\": \"backward\", \"cost\": 1, \"inputs\": [%s%d, %d], \"outputs\": [%d]}", \
            i < n - 1 ? (i + 1) ", " : "", i, 2 * n - i - 1, 2 * n - i
    printf "],\n \"results\": [%d]}\n", 2 * n
}'
