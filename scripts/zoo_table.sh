#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every network of the zoo at its published size and at another: graph, solve at 60 % of the memory that a step without
# rematerialization takes, verify. Writes docs/zoo.csv and the table of docs/ZOO.md. Where no schedule is found at 60 %,
# the budget is 60 % of the way from the memory floor to the peak, and then the peak. Can be interrupted at any time: finished rows
# are kept, and running it again continues.
#   CHECKMATE=build/checkmate   the program
#   ZOO_DIR=<next to it>/zoo-table   finished rows; remove it to begin anew
#   ZOO_SECONDS=0               begin no further row after this many seconds; 0: all
#   ZOO_SOLVE_SECONDS=5         time limit of a solve
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
. scripts/lib.sh
checkmate=${CHECKMATE:-build/checkmate}
solve_seconds=${ZOO_SOLVE_SECONDS:-5}
most_seconds=${ZOO_SECONDS:-0}
need_program "$checkmate"
rows=${ZOO_DIR:-$(dirname "$checkmate")/zoo-table}
mkdir -p "$rows"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
began=$(date +%s)
failures=0

# What else a network takes than its published input: a shorter text, another image.
other_size() {
    case $1 in
    GPT2* | BERT*) echo "--sequence-length 256" ;;
    *lama*) echo "--sequence-length 1024" ;;
    linear* | test | DDPM-256) echo "--input-shape 128,128,3" ;;
    unet_mini) echo "--input-shape 240,320,3" ;;
    unet | *_unet | *segnet | fcn_*) echo "--input-shape 224,320,3" ;;
    pspnet_50 | pspnet_101) echo "--input-shape 713,713,3" ;;
    *pspnet | ViT*) echo "--input-shape 384,384,3" ;;
    Xception | InceptionV3 | NASNetLarge) echo "--input-shape 224,224,3" ;;
    Swin*) echo "--input-shape 256,256,3" ;;
    DDPM-CIFAR10) echo "--input-shape 64,64,3" ;;
    *) echo "--input-shape 160,160,3" ;;
    esac
}

# Samples in a batch: enough that activations are what memory goes to.
batch_of() {
    case $1 in
    *lama*) echo 4 ;;
    GPT2* | BERT* | DDPM-256) echo 8 ;;
    *) echo 32 ;;
    esac
}

# number KEY FILE: from a summary of `graph`, without separators.
number() {
    sed -n "s/^$1  *\([0-9,]*\).*/\1/p" "$2" | tr -d ,
}

# solve BUDGET: result in result.json; none when no schedule was found.
solve() {
    status=0
    rm -f "$work/schedule.json"
    "$checkmate" solve "$work/graph.json" --budget "$1" --time-limit "$solve_seconds" --json \
        -o "$work/schedule.json" > "$work/result.json" 2> "$work/messages" || status=$?
}

# row NETWORK INPUT OPTION...: one line of the table, into the file of finished rows. Fails when a step does.
row() {
    network=$1
    input=$2
    shift 2
    batch=$(batch_of "$network")
    "$checkmate" graph "$network" --batch "$batch" "$@" > "$work/summary"
    "$checkmate" graph "$network" --batch "$batch" "$@" -o "$work/graph.json"
    of="60 % of the peak"
    solve 60%
    [ -s "$work/result.json" ] || { cat "$work/messages" >&2; return 1; }
    peak=$(value baseline_peak_bytes "$work/result.json")
    floor=$(value floor_bytes "$work/result.json")
    if [ "$status" -ne 0 ]; then
        of="60 % from floor to peak"
        solve $((floor + (peak - floor) * 6 / 10))
    fi
    if [ "$status" -ne 0 ]; then
        of="the peak"
        solve "$peak"
    fi
    verified=-
    if [ -s "$work/schedule.json" ]; then
        "$checkmate" verify "$work/graph.json" "$work/schedule.json" > "$work/verdict" || return 1
        verified=yes
    fi
    printf '%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s\n' "$network" "$input" "$batch" \
        "$(number layers "$work/summary")" "$(number parameters "$work/summary")" \
        "$(number operators "$work/summary")" "$peak" "$floor" "$(value budget_bytes "$work/result.json")" "$of" \
        "$(value status "$work/result.json")" "$(value overhead "$work/result.json")" \
        "$(value gap "$work/result.json")" "$(value seconds "$work/result.json")" "$verified" > "$work/row"
    mv "$work/row" "$rows/$network@$input"
    cat "$rows/$network@$input" >&2
}

out_of_time() {
    [ "$most_seconds" -gt 0 ] && [ $(($(date +%s) - began)) -ge "$most_seconds" ]
}

"$checkmate" models --all > "$work/models"
sed -n '/^  /p' "$work/models" | awk '{ print $1, $2 }' > "$work/names"
while read -r network own; do
    for input in "$own" "$(other_size "$network" | sed 's/.* //; s/,/x/g')"; do
        if [ -s "$rows/$network@$input" ] || out_of_time; then
            continue
        fi
        options=$([ "$input" = "$own" ] || other_size "$network")
        # shellcheck disable=SC2086 # options are words
        if ! row "$network" "$input" $options; then
            echo "zoo_table: $network at $input failed" >&2
            failures=$((failures + 1))
        fi
    done
done < "$work/names"

# ---- the table, of all rows there are

header=network,input,batch,layers,parameters,operators,peak_bytes,floor_bytes,budget_bytes,budget,status,overhead,gap,seconds,verified
{
    echo "$header"
    while read -r network own; do
        for input in "$own" "$(other_size "$network" | sed 's/.* //; s/,/x/g')"; do
            [ ! -s "$rows/$network@$input" ] || cat "$rows/$network@$input"
        done
    done < "$work/names"
} > "$work/zoo.csv"
mv "$work/zoo.csv" docs/zoo.csv

awk -F, '
    function bytes(n) { return n >= 1e9 ? sprintf("%.2f GB", n / 1e9) : sprintf("%.1f MB", n / 1e6) }
    function percent(x) { return x == "" ? "" : sprintf("%.1f %%", 100 * x) }
    NR == 1 {
        print "| network | input | batch | operators | peak | floor | budget | outcome | overhead | gap | seconds | verified |"
        print "|---|---|---|---|---|---|---|---|---|---|---|---|"
        next
    }
    {
        printf "| %s | %s | %s | %s | %s | %s | %s%s | %s | %s | %s | %.1f | %s |\n", $1, $2, $3, $6, bytes($7),
               bytes($8), bytes($9), ($10 ~ /floor/ ? " *" : $10 == "the peak" ? " **" : ""), $11, percent($12), percent($13), $14, $15
    }' docs/zoo.csv > "$work/table"
into_page zoo_table "$work/table" docs/ZOO.md
echo "zoo_table: $(($(wc -l < docs/zoo.csv) - 1)) of $((2 * $(wc -l < "$work/names"))) rows" >&2
[ "$failures" -eq 0 ]
