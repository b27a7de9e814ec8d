#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whether the budget holds: trains networks at 100, 70 and 50 % of the memory that training without rematerialization takes
# and at the first of 30, 40, 50, 60, 70, 80 and 90 % that fits, on every level of the processor and with 1, 2 and 8 threads, each
# again under a limit on the address space of the budget and 32 MB. Prints by how much the process's anonymous memory grew, less the budget, and
# puts the table into docs/TRAINING.md and the cells into docs/budgets.csv. Exit status 1 when one is above its budget,
# does not run under the limit, or an unconstrained run does. Can be interrupted: finished cells are kept, and running it
# again goes on.
#   CHECKMATE=build/checkmate    the program
#   TABLE_DIR=<next to it>/budget-table   finished cells; remove it to begin anew
#   TABLE_NETWORKS="..."         NETWORK:HEIGHT,WIDTH,CHANNELS:BATCH or GPT2::BATCH, with blanks between
#   TABLE_LEVELS="..."           values of DNNL_MAX_CPU_ISA; those that this processor lacks are its best again
#   TABLE_THREADS="1 2 8"
#   TABLE_BUDGETS="100 70 50 least"
#   TABLE_SOLVE_SECONDS=2        time limit of a solve
#   TABLE_WRITE=yes              no: only print, leave docs/ alone
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
. scripts/lib.sh
checkmate=${CHECKMATE:-build/checkmate}
networks=${TABLE_NETWORKS:-MobileNet:64,64,3:32 ResNet50:64,64,3:8 VGG16:48,48,3:16 vgg_unet:96,96,3:4 GPT2::8 Swin-T:56,56,3:16}
levels=${TABLE_LEVELS:-SSE41 AVX AVX2 AVX512_CORE}
thread_counts=${TABLE_THREADS:-1 2 8}
budgets=${TABLE_BUDGETS:-100 70 50 least}
solve_seconds=${TABLE_SOLVE_SECONDS:-2}
constant=32000000  # beyond the budget, for address space that is never used
need_program "$checkmate"
cells=${TABLE_DIR:-$(dirname "$checkmate")/budget-table}
mkdir -p "$cells"
cells=$(cd "$cells" && pwd)
trap 'rm -f "$cells"/*.part' EXIT
trap 'exit 1' HUP INT TERM

# train BUDGET OPTION...: the network at hand; result.part, messages.part, exit status in $status.
train() {
    budget=$1
    shift
    status=0
    # A small transformer, where images have a shape.
    size="--sequence-length 128 --depth 4 --width 256 --heads 4 --vocabulary 2000"
    [ -z "$shape" ] || size="--input-shape $shape"
    # shellcheck disable=SC2086
    DNNL_MAX_CPU_ISA=$level "$checkmate" train "$network" --data synthetic --samples $((4 * batch)) $size --batch "$batch" \
        --fused --momentum 0 --lr 0.001 --costs flops --time-limit "$solve_seconds" --threads "$threads" --budget "$budget" \
        --json "$@" > "$cells/result.part" 2> "$cells/messages.part" || status=$?
}

# train_at BUDGET: a number is percent, "least" the first of 30, 40, 50, 60, 70, 80 and 90 % that fits.
train_at() {
    if [ "$1" != least ]; then
        train "$1%" --steps 3
        return
    fi
    for percent in 30 40 50 60 70 80 90; do
        train "$percent%" --steps 3
        [ $status -eq 3 ] || [ $status -eq 4 ] || return 0
    done
}

# cell BUDGET: one line of the CSV file.
cell() {
    line=$cells/$network-$level-$threads-$1.csv
    [ ! -s "$line" ] || return 0
    train_at "$1"
    if [ $status -eq 3 ] || [ $status -eq 4 ]; then
        echo "$network,$level,$threads,$1,,,,,no fit,no fit" > "$line"
        return
    fi
    if [ $status -ne 0 ]; then
        tail -n 3 "$cells/messages.part" >&2
        echo "budget_table: $network, $level, $threads threads, $1: exit status $status" >&2
        failed=yes
        return
    fi
    mv "$cells/result.part" "$cells/free.part"
    bytes=$(value budget_bytes "$cells/free.part")
    most=$(value baseline_bytes "$cells/free.part")
    limit=$((bytes + constant))
    train "$bytes" --steps 2 --memory-limit "$limit"
    limited=NO
    [ $status -ne 0 ] || limited=runs
    dies='fits there'
    # By more than what is reserved and may not be used.
    if [ "$most" -gt $((limit + 16000000)) ]; then
        train auto --steps 1 --memory-limit "$limit"
        dies=RUNS
        if [ $status -eq 1 ] && grep -q 'cannot be allocated' "$cells/messages.part"; then
            dies=dies
        fi
    fi
    echo "$network,$level,$threads,$1,$bytes,$(value anonymous_growth_bytes "$cells/free.part"),$(value resident_growth_bytes "$cells/free.part"),$most,$limited,$dies" > "$line.part"
    mv "$line.part" "$line"
}

failed=no
for spec in $networks; do
    network=$(printf '%s' "$spec" | cut -d: -f1)
    shape=$(printf '%s' "$spec" | cut -d: -f2)
    batch=$(printf '%s' "$spec" | cut -d: -f3)
    for level in $levels; do
        for threads in $thread_counts; do
            printf '%s, %s, %s threads\n' "$network" "$level" "$threads" >&2
            for budget in $budgets; do
                cell "$budget"
            done
        done
    done
done

csv=$cells/budgets.csv
{
    echo 'network,level,threads,budget,budget_bytes,anonymous_growth_bytes,resident_growth_bytes,unconstrained_bytes,under_limit,unconstrained_under_limit'
    for spec in $networks; do
        for budget in $budgets; do
            for level in $levels; do
                for threads in $thread_counts; do
                    file=$cells/${spec%%:*}-$level-$threads-$budget.csv
                    [ ! -s "$file" ] || cat "$file"
                done
            done
        done
    done
} > "$csv"

awk -F, -v levels="$levels" -v threads="$thread_counts" '
    NR == 1 {
        n_levels = split(levels, level, " ")
        n_threads = split(threads, thread, " ")
        head = "| network | budget | MB |"
        rule = "|---|---|---|"
        for (l = 1; l <= n_levels; l++) for (t = 1; t <= n_threads; t++) {
            head = head " " level[l] " -j" thread[t] " |"
            rule = rule "---|"
        }
        print head
        print rule
        next
    }
    {
        key = $1 SUBSEP $4
        if (!(key in seen)) {
            seen[key] = 1
            order[++n] = key
            name[key] = $1
            budget[key] = $4 == "least" ? "first of 30 to 90 %" : $4 " %"
        }
        if ($9 == "no fit") { text[key, $2, $3] = "no fit"; none++; next }
        cells++
        if (low[key] == "" || $5 < low[key]) low[key] = $5
        if (high[key] == "" || $5 > high[key]) high[key] = $5
        over = $6 == "" || $6 + 0 > $5 + 0
        above += over
        text[key, $2, $3] = (over ? "OVER " : "") sprintf("%.0f", ($6 - $5) / 1000) ($9 == "runs" ? "" : " FAILS") ($10 == "RUNS" ? " UNLIMITED" : "")
        fails += $9 != "runs"
        dies += $10 == "dies"
        runs += $10 == "RUNS"
    }
    END {
        for (i = 1; i <= n; i++) {
            key = order[i]
            range = low[key] == "" ? "-" : sprintf("%.1f to %.1f", low[key] / 1e6, high[key] / 1e6)
            line = "| " name[key] " | " budget[key] " | " range " |"
            for (l = 1; l <= n_levels; l++) for (t = 1; t <= n_threads; t++) line = line " " text[key, level[l], thread[t]] " |"
            print line
        }
        printf "\n%d cells: growth is above the budget in %d. Under budget + 32 MB of address space %d fail; without rematerialization,\nwhich would take more than that in %d of them, %d run there all the same.", cells, above, fails, dies + runs, runs
        if (none > 0) printf " In %d more no schedule fits.", none
        printf "\n"
        exit above + fails + runs > 0
    }' "$csv" > "$cells/table.md" || failed=yes
cat "$cells/table.md"
if [ "${TABLE_WRITE:-yes}" = yes ]; then
    into_page budget_table "$cells/table.md" docs/TRAINING.md
    cp "$csv" docs/budgets.csv
fi
[ $failed = no ]
