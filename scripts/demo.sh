#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Plans a few networks under memory budgets and prints one table, then trains one at three budgets and prints another;
# `make demo` builds and runs it.
#   CHECKMATE=build/checkmate   the program
#   DEMO_DIR=<next to it>/demo  where graphs, schedules and figures go
#   DEMO_SECONDS=12             time limit for a solve by a strategy that searches
#   DEMO_ONNX=FILE              the ONNX file to plan
#   DEMO_PART=plan|train        only one of the two tables
#   DEMO_STEPS=100              training steps at each budget
set -eu
LC_ALL=C
export LC_ALL

cd "$(dirname "$0")/.."
. scripts/lib.sh
checkmate=${CHECKMATE:-build/checkmate}
need_program "$checkmate"
build=$(dirname "$checkmate")
out=${DEMO_DIR:-$build/demo}
seconds=${DEMO_SECONDS:-12}
mkdir -p "$out"
began=$(date +%s)

bold='' dim='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
fi

# An ONNX ResNet: the one given, the reference file, or one made here.
onnx=${DEMO_ONNX:-}
if [ -z "$onnx" ] && [ -r ../shared/data/onnx/resnet50.onnx ]; then
    onnx=../shared/data/onnx/resnet50.onnx
fi
if [ -z "$onnx" ] && [ -x "$build/examples/make_resnet_onnx" ]; then
    onnx=$out/resnet18.onnx
    "$build/examples/make_resnet_onnx" "$onnx" > "$out/make_resnet_onnx.log"
fi

line() {
    printf '%s%s%s\n' "$dim" '--------------------------------------------------------------------------------' "$plain"
}

# row BUDGET STRATEGY RESULT-FILE: one line of the table from a result of `solve --json`. Where there is no schedule, it says
# why: the strategy has none, time ran out, or it is proven that none exists.
row() {
    awk -v budget="$1" -v strategy="$2" -v limit="$seconds" '
        function get(key,   text) {
            if (!match($0, "\"" key "\": (\"[^\"]*\"|[^,}]*)")) return ""
            text = substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4)
            gsub(/"/, "", text)
            return text == "null" ? "" : text
        }
        function gigabytes(bytes) { return bytes == "" ? "-" : sprintf("%.2f GB", bytes / 1e9) }
        function percent(fraction) {
            if (fraction == "") return "-"
            fraction += 0
            return sprintf(fraction >= 0.1 ? "%.1f %%" : "%.2f %%", 100 * fraction)
        }
        {
            whole = get("baseline_cost")
            bound = get("bound_cost")
            status = get("status")
            covers = get("bound_covers")
            least = get("least_peak_bytes")
            printf "%8s %4s ", budget == "" ? "" : gigabytes(get("budget_bytes")), budget
            # A proof is of every strategy.
            if (status == "infeasible" && covers == "any") printf "%-14s  impossible: %s are needed, proven\n", "any", gigabytes(get("floor_bytes"))
            else if (status == "infeasible") printf "%-14s  proven: no schedule %s fits\n", strategy, covers == "order" ? "in the graph\047s order" : "that advances by stages"
            else if (status != "unknown") {
                printf "%-14s%8s%8s%8s %-8s%8s%8.2f%s\n", strategy, gigabytes(get("peak_bytes")), percent(get("overhead")),
                    bound == "" ? "-" : percent(bound / whole - 1), bound == "" ? "" : covers, percent(get("gap")), get("seconds"),
                    status == "optimal" ? " *" : ""
            }
            # A published strategy has a fixed set of schedules: if none fits, others may.
            else if (strategy == "auto" || strategy == "ilp" || least == "") printf "%-14s  none found within %s s; one may exist\n", strategy, limit
            else printf "%-14s  this strategy has none: its least needs %s\n", strategy, gigabytes(least)
        }' "$3"
}

# plan NAME LABEL MODEL BATCH BUDGETS STRATEGIES
plan() {
    name=$1 label=$2 model=$3 batch=$4 budgets=$5 strategies=$6
    graph=$out/$name.graph.json
    "$checkmate" graph "$model" --granularity layer --batch "$batch" -o "$graph"
    operators=$("$checkmate" graph "$graph" | sed -n 's/^operators *\([0-9]*\).*/\1/p')
    line
    whole=$("$checkmate" graph "$graph" | sed -n 's/^peak memory *//p')
    printf '%s%s: %s operators, %s%s\n' "$bold" "$label" "$operators" "$whole" "$plain"
    for budget in $budgets; do
        shown_budget=$budget
        for strategy in $strategies; do
            schedule=$out/$name.${budget%\%}.$strategy.json
            rm -f "$schedule"
            status=0
            "$checkmate" solve "$graph" --budget "$budget" --strategy "$strategy" --time-limit "$seconds" --json \
                -o "$schedule" > "$out/result.json" 2> "$out/messages.txt" || status=$?
            case $status in
            0)
                # The verifier has the last word on every schedule in the table.
                "$checkmate" verify "$graph" "$schedule" > /dev/null
                schedules=$((schedules + 1))
                ;;
            3 | 4) ;;  # none fits, or none was found: that is a row too
            *)
                cat "$out/messages.txt" >&2
                exit 1
                ;;
            esac
            row "$shown_budget" "$strategy" "$out/result.json"
            shown_budget=''
            # Proven for every schedule: one row says it.
            if grep -q '"status": "infeasible".*"bound_covers": "any"' "$out/result.json"; then break; fi
        done
    done
}

plan_networks() {
    schedules=0
    printf '%s%s\n%s%s\n\n' "$bold" 'Training steps planned within a memory budget. Costs are multiply-accumulates;' \
        'sizes include parameters and gradients.' "$plain"
    printf '%s%13s %-14s%8s%8s%8s %-8s%8s%8s%s\n' "$bold" budget strategy peak over- bound of gap seconds "$plain"
    printf '%s%13s %-14s%8s%8s%s\n' "$bold" '' '' '' head "$plain"
    plan resnet50 'ResNet50, batch 64' ResNet50 64 '60% 40%' 'chen-greedy chen-greedy-ap griewank auto'
    plan mobilenet 'MobileNet, batch 128' MobileNet 128 '60% 40%' 'chen-sqrt chen-greedy griewank auto'
    plan unet 'U-Net (vgg), batch 16' vgg_unet 16 '80% 60%' 'chen-greedy griewank ilp auto'
    if [ -n "$onnx" ]; then
        plan onnx "$(basename "$onnx"), batch 64" "$onnx" 64 '60% 45%' 'chen-greedy chen-greedy-ap griewank auto'
    else
        echo "demo: no ONNX file (set DEMO_ONNX=FILE to plan one)" >&2
    fi
    line

    # Figures; without the programs that draw, the table stands for itself.
    figures=''
    if command -v gnuplot > /dev/null; then
        "$checkmate" sweep "$out/mobilenet.graph.json" --budgets 8 --time-limit 2 \
            --strategies checkpoint-all,checkpoint-all-ap,chen-sqrt,chen-greedy,griewank,auto \
            -o "$out/mobilenet-sweep.csv" --plot "$out/mobilenet-sweep.svg" 2> /dev/null
        figures="$out/mobilenet-sweep.svg"
    fi
    if command -v dot > /dev/null; then
        "$checkmate" graph "$out/unet.graph.json" --plot "$out/unet-graph.svg" > /dev/null
        figures="$figures $out/unet-graph.svg"
    fi
    took=$(($(date +%s) - began))
    printf '\n%s schedules, each checked by the independent verifier; %s s in all.\n' "$schedules" "$took"
    printf "Overhead is computation beyond that without rematerialization. 'bound' is\n"
    printf "proven: no schedule has less ('any'), none in the graph's order ('order'), or\n"
    printf "none that advances by stages ('frontier'). 'gap' is how far a schedule may be\n"
    printf "from it; * marks those proven to be within 0.01 %% of the least of that class.\n"
    printf 'Schedules and graphs: %s/\n' "$out"
    for figure in $figures; do
        printf 'Figure: %s\n' "$figure"
    done
}

# The losses of a log, one a line, as they were printed: all their digits.
losses() {
    sed -n 's/.*"loss": \([^,]*\).*/\1/p' "$1"
}

# train_at BUDGET: trains, times steps within the budget and without rematerialization in turns, and adds a line to the
# table. The first budget is the one that losses are compared with.
train_at() {
    budget=$1
    network="MobileNet --data $images --input-shape 64,64,3 --batch 32 --budget $budget --fused --lr 0.02 --time-limit 5 --json"
    {
        "$checkmate" train $network --steps "$steps" --log "$out/train-$budget.jsonl" > "$out/train.json" &&
            "$checkmate" train $network --compare "$rounds" > "$out/times.json"
    } 2> "$out/train-messages.txt" || {
        cat "$out/train-messages.txt" >&2
        exit 1
    }
    losses "$out/train-$budget.jsonl" > "$out/losses-$budget.txt"
    [ -n "$first_budget" ] || first_budget=$budget
    same=same
    cmp -s "$out/losses-$first_budget.txt" "$out/losses-$budget.txt" || same=DIFFER
    cat "$out/train.json" "$out/times.json" | awk -v budget="$budget" -v same="$same" '
        function get(text, key) {
            if (!match(text, "\"" key "\": (\"[^\"]*\"|[^,}]*)")) return ""
            return substr(text, RSTART + length(key) + 4, RLENGTH - length(key) - 4)
        }
        function megabytes(bytes) { return sprintf("%.1f", bytes / 1e6) }
        function milliseconds(seconds) { return seconds == "null" ? "-" : sprintf("%.1f", 1000 * seconds) }
        function percent(fraction) { return fraction == "null" ? "-" : sprintf("%.1f", 100 * fraction) }
        NR == 1 { run = $0 }
        NR == 2 {
            grown = get(run, "anonymous_growth_bytes") + get(run, "kernel_bytes")
            fits = get(run, "anonymous_growth_bytes") == "null" ? "?" : (grown + 0 <= get(run, "budget_bytes") + 0 ? "yes" : "NO")
            printf "%-6s%7s%8s%7s%8.4f%8s %-6s%8s%8s%7s%6s\n", budget, megabytes(get(run, "budget_bytes")),
                megabytes(get(run, "used_bytes")), fits == "?" ? "?" : megabytes(grown), get(run, "last_loss"),
                sprintf("%.1f %%", 100 * get(run, "accuracy")), same, milliseconds(get($0, "step_predicted_seconds")),
                milliseconds(get($0, "step_seconds")), percent(get($0, "overhead_predicted")), percent(get($0, "overhead_measured"))
            exit fits == "NO"
        }'
    [ "$same" = same ] || exit 1
}

train_network() {
    began=$(date +%s)
    steps=${DEMO_STEPS:-100}
    rounds=10
    images=$out/digits64
    first_budget=''
    [ -d "$images" ] || "$build/examples/make_digits" "$images" 640 64 > "$out/make_digits.log"
    printf '%s%s\n%s\n%s%s\n' "$bold" "MobileNet, batch 32, trained for $steps steps on 640 colour images of digits" \
        '(64x64 pixels, made by examples/data/make_digits.c); sizes in MB, times in' 'milliseconds a step, overhead in %' "$plain"
    printf '\n%s%-6s%7s%8s%7s%8s%8s %-6s%16s%13s%s\n' "$bold" budget bytes planned grew loss right losses time overhead "$plain"
    printf '%s%-6s%7s%8s%7s%8s%8s %-6s%8s%8s%7s%6s%s\n' "$bold" '' '' '' '' 'at end' '' '' plan real plan real "$plain"
    line
    for budget in 100% 70% 55%; do
        train_at "$budget"
    done
    line
    printf '%s s in all, solving and measuring included. The loss was %s at first.\n' "$(($(date +%s) - began))" \
        "$(losses "$out/train-100%.jsonl" | sed -n 1p | cut -c 1-6)"
    printf '"grew" is what the process took of its own in memory; more than the budget is an\n'
    printf 'error. "same": every loss agrees to the last bit with those at the first budget.\n'
    printf 'Times: medians of %s rounds, in which steps within the budget and without\nrematerialization took turns.\n' "$rounds"
    printf 'Logs: %s/train-*.jsonl\n' "$out"
}

case ${DEMO_PART:-both} in
plan) plan_networks ;;
train) train_network ;;
*)
    plan_networks
    printf '\n'
    train_network
    ;;
esac
