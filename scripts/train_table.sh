#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Trains a few networks at 70, 50, 35 and 25 % of the memory that training without rematerialization takes (or at the
# smallest budget that fits) and puts what was planned, predicted and measured into the table of docs/TRAINING.md and into
# docs/training.csv. Can be interrupted at any time: finished rows are kept, and running it again continues.
#   CHECKMATE=build/checkmate   the program
#   TABLE_DIR=<next to it>/train-table   finished rows and measured operator times; remove it to begin anew
#   TABLE_SECONDS=0             begin no further row after this many seconds; 0: all
#   TABLE_NETWORKS="..."        NETWORK:HEIGHT,WIDTH,CHANNELS:BATCH:ROUNDS, with blanks between
#   TABLE_SOLVE_SECONDS=5       time limit of a solve
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
. scripts/lib.sh
checkmate=${CHECKMATE:-build/checkmate}
networks=${TABLE_NETWORKS:-MobileNet:96,96,3:32:12 ResNet50:112,112,3:16:6 VGG16:64,64,3:32:5 vgg_unet:128,128,3:4:8 Swin-T:112,112,3:8:6}
solve_seconds=${TABLE_SOLVE_SECONDS:-5}
most_seconds=${TABLE_SECONDS:-0}
constant=32000000  # beyond the budget: address space that is never used
need_program "$checkmate"
rows=${TABLE_DIR:-$(dirname "$checkmate")/train-table}
mkdir -p "$rows"
rows=$(cd "$rows" && pwd)
# Times that others measured, maybe with another build, are not used.
XDG_CACHE_HOME=$rows
export XDG_CACHE_HOME
began=$(date +%s)
trap 'rm -f "$rows"/*.part' EXIT
trap 'exit 1' HUP INT TERM

# train BUDGET OPTION...: trains the network at hand; result in result.part, messages in messages.part, exit status in $status.
train() {
    budget=$1
    shift
    status=0
    "$checkmate" train "$network" --data synthetic --samples $((4 * batch)) --input-shape "$shape" --batch "$batch" --fused \
        --momentum 0 --lr 0.001 --time-limit "$solve_seconds" --budget "$budget" --json "$@" \
        > "$rows/result.part" 2> "$rows/messages.part" || status=$?
}

# The budget that should fit, in bytes and 2 % more, from the message of a run whose budget was too small.
smallest_known() {
    sed -n 's/.*a budget that should fit: \([0-9.]*\) \([kMGT]\)B.*/\1 \2/p' "$rows/messages.part" |
        awk '{ unit["k"] = 1e3; unit["M"] = 1e6; unit["G"] = 1e9; unit["T"] = 1e12; printf "%.0f", 1.02 * $1 * unit[$2] }'
}

# row PERCENT: writes the CSV line of one row.
row() {
    percent=$1
    line=$rows/$network-$percent.csv
    if [ -s "$line" ]; then
        return
    fi
    if [ "$most_seconds" -gt 0 ] && [ $(($(date +%s) - began)) -ge "$most_seconds" ]; then
        complete=no
        return
    fi
    printf '%s at %s %%\n' "$network" "$percent" >&2
    wanted=$percent%
    kind=percent
    train "$wanted" --check --steps 2 --compare "$rounds"
    attempts=0
    while [ $status -eq 3 ] || [ $status -eq 4 ]; do
        least=$(smallest_known)
        attempts=$((attempts + 1))
        if [ -z "$least" ] || [ $attempts -gt 8 ]; then
            break
        fi
        # A budget that fitted once may not fit with other costs: try a little more each time.
        wanted=$(awk -v b="$least" -v n="$attempts" 'BEGIN { printf "%.0f", b * (1 + 0.03 * (n - 1)) }')
        kind=floor
        if [ -e "$rows/$network-floor" ]; then
            # The floor's row is there already.
            : > "$line.part"
            mv "$line.part" "$rows/$network-$percent.same"
            return
        fi
        train "$wanted" --check --steps 2 --compare "$rounds"
    done
    if [ $status -ne 0 ]; then
        tail -n 3 "$rows/messages.part" >&2
        echo "train_table: $network at $percent % failed (exit status $status)" >&2
        failed=yes
        return
    fi
    mv "$rows/result.part" "$rows/compared.part"
    bytes=$(value budget_bytes "$rows/compared.part")
    unconstrained=$(value baseline_used_bytes "$rows/compared.part")
    limit=$((bytes + constant))
    # The same under a limit that the system enforces, where training without rematerialization must die.
    train "$bytes" --steps 2 --memory-limit "$limit"
    limited=no
    growth=''
    if [ $status -eq 0 ]; then
        limited=yes
        growth=$(value anonymous_growth_bytes "$rows/result.part")
    fi
    train auto --steps 1 --memory-limit "$limit"
    dies=no
    if [ $status -eq 1 ] && grep -q 'cannot be allocated' "$rows/messages.part"; then
        dies=yes
    elif [ "$unconstrained" -le "$limit" ]; then
        dies=fits
    fi
    {
        printf '%s,%s,%s,%s,%s,%s,%s' "$network" "$(printf '%s' "$shape" | tr , x)" "$batch" "$kind" "$bytes" "$unconstrained" \
            "$(awk -v a="$bytes" -v b="$unconstrained" 'BEGIN { printf "%.1f", 100 * a / b }')"
        printf ',%s,%s' "$(value arena_bytes "$rows/compared.part")" "$growth"
        for key in overhead_predicted overhead_measured overhead_low overhead_high baseline_step_seconds step_seconds \
            step_predicted_seconds step_predicted_in_turns_seconds equal; do
            printf ',%s' "$(value $key "$rows/compared.part")"
        done
        printf ',%s,%s\n' "$limited" "$dies"
    } > "$line.part"
    mv "$line.part" "$line"
    if [ $kind = floor ]; then
        : > "$rows/$network-floor"
    fi
}

complete=yes failed=no
for spec in $networks; do
    network=$(printf '%s' "$spec" | cut -d: -f1)
    shape=$(printf '%s' "$spec" | cut -d: -f2)
    batch=$(printf '%s' "$spec" | cut -d: -f3)
    rounds=$(printf '%s' "$spec" | cut -d: -f4)
    for percent in 70 50 35 25; do
        [ -e "$rows/$network-$percent.same" ] || row $percent
    done
done

csv=$rows/training.csv
echo 'network,input,batch,budget_kind,budget_bytes,unconstrained_bytes,budget_percent,arena_bytes,anonymous_growth_bytes,overhead_predicted,overhead_measured,overhead_low,overhead_high,unconstrained_step_seconds,step_seconds,step_predicted_seconds,step_predicted_in_turns_seconds,bit_for_bit,runs_under_limit,unconstrained_dies' > "$csv"
for spec in $networks; do
    for percent in 70 50 35 25; do
        file=$rows/${spec%%:*}-$percent.csv
        [ ! -s "$file" ] || cat "$file" >> "$csv"
    done
done

# The table, and below it how far predictions are off.
awk -F, '
    function abs(x) { return x < 0 ? -x : x }
    function percent(x) { return sprintf("%.1f %%", 100 * x) }
    function megabytes(x) { return x == "" ? "-" : sprintf("%.1f", x / 1e6) }
    function median(list, n,   i, j, t) {
        for (i = 2; i <= n; i++) {
            t = list[i]
            for (j = i - 1; j > 0 && list[j] > t; j--) list[j + 1] = list[j]
            list[j + 1] = t
        }
        return n == 0 ? 0 : n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
    }
    NR == 1 {
        print "| network | input, batch | budget | MB | arena MB | memory grew by MB | overhead predicted | measured (quartiles) | step predicted ms | in turns ms | measured ms | same bits | under budget + 32 MB | without remat. there |"
        print "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
        next
    }
    {
        if (!($16 > 0)) $16 = ""
        n++
        turns[n] = abs($17 / $15 - 1)
        difference[n] = abs($10 - $11)
        if ($16 != "") kept[++m] = abs($16 / $15 - 1)
        printf "| %s | %s, %s | %.0f %%%s | %s | %s | %s | %s | %s (%s, %s) | %s | %.1f | %.1f | %s | %s | %s |\n", $1, $2, $3, $7,
            $4 == "floor" ? " (least found)" : "", megabytes($5), megabytes($8), megabytes($9), percent($10), percent($11), percent($12), percent($13),
            $16 == "" ? "-" : sprintf("%.1f", 1000 * $16), 1000 * $17, 1000 * $15, $18 == "true" ? "yes" : "NO",
            $19 == "yes" ? "runs" : "FAILS", $20 == "yes" ? "dies" : $20 == "fits" ? "would fit" : "RUNS"
    }
    END {
        printf "\n%d rows. A step takes %s more or less than its measured operators predict, and %s more or less than those\nmeasured in turns with it (medians); the measured overhead is %.1f percentage points off the predicted one (median).\n",
            n, percent(median(kept, m)), percent(median(turns, n)), 100 * median(difference, n)
    }' "$csv" > "$rows/table.md"
cat "$rows/table.md"

if [ $failed = yes ]; then
    exit 1
fi
if [ $complete = no ]; then
    echo "train_table: not complete yet; run it again to continue" >&2
    exit 0
fi
into_page train_table "$rows/table.md" docs/TRAINING.md
cp "$csv" docs/training.csv
