#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Device models against published times of whole training steps, and against the costs of instances of the literature that are
# said to be measured on a V100. Settings and how to resume: lib.sh.
. "$(dirname "$0")/lib.sh"
open_csv devices device,network,batch,what,measured_ms,model_ms,source "$@"

# costs FILE: kind and cost of every operator of a graph, one a line.
costs() {
    tr '{' '\n' < "$1" | sed -n 's/.*"cost": *\([0-9]*\).*/\1 &/p' | awk '{
        kind = match($0, /"kind": *"[a-z]*"/) ? substr($0, RSTART, RLENGTH) : "\"forward\""
        sub(/"kind": */, "", kind)
        gsub(/"/, "", kind)
        print kind, $1 }'
}

grep '^speed,' scripts/paper/published.csv | while IFS=, read -r _ device network batch what measured source; do
    known "$device,$network,$batch,$what," && continue
    "$checkmate" graph "$network" --batch "$batch" --costs "device:$device" -o "$temporary/graph.json" > /dev/null
    model=$(costs "$temporary/graph.json" | awk -v what="$what" 'what == "step" || $1 == "forward" { s += $2 }
        END { printf "%.1f", s / 1e6 }')
    add "$device,$network,$batch,$what,$measured,$model,$source"
    say "$(tail -n 1 "$csv")"
done

# Ranks, ties at their mean, then the correlation of the ranks.
correlation() {
    paste "$1" "$2" | awk '{ a[NR] = $1; b[NR] = $2 }
        function rank(v, r,   i, j, below, same) {
            for (i = 1; i <= NR; i++) {
                below = same = 0
                for (j = 1; j <= NR; j++) { if (v[j] < v[i]) below++; else if (v[j] == v[i]) same++ }
                r[i] = below + (same + 1) / 2
            }
        }
        END {
            rank(a, ra); rank(b, rb)
            for (i = 1; i <= NR; i++) { x += ra[i]; y += rb[i] }
            x /= NR; y /= NR
            for (i = 1; i <= NR; i++) { xy += (ra[i] - x) * (rb[i] - y); xx += (ra[i] - x) ^ 2; yy += (rb[i] - y) ^ 2 }
            printf "%.3f", xy / sqrt(xx * yy) }'
}

for network in VGG16:256 vgg_unet:32; do
    instance=$instances/${network%:*}.json
    if [ ! -r "$instance" ]; then
        say "skipped: $instance is not there"
        continue
    fi
    known "instance,${network%:*}," && continue
    costs "$instance" | cut -d ' ' -f 2 > "$temporary/profile"
    for model in device:V100 flops; do
        costs "$(layer_graph "${network%:*}" "${network#*:}" $model)" | cut -d ' ' -f 2 > "$temporary/model"
        ms=$(awk -v m=$model '{ s += $1 } END { if (m != "flops") printf "%.1f", s / 1e6 }' "$temporary/model")
        add "instance,${network%:*},${network#*:},$model,$(awk '{ s += $1 } END { printf "%.1f", s / 1e3 }' "$temporary/profile"),$ms,rank correlation $(correlation "$temporary/profile" "$temporary/model") over $(wc -l < "$temporary/model") operators"
        say "$(tail -n 1 "$csv")"
    done
done
