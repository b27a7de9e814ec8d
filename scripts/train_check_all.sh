#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Trains every network of the zoo and every ONNX file at hand for two steps with and without rematerialization and
# compares them bit for bit (checkmate train --check). Prints one line each; small batches and the smallest input that the
# network takes, so that it can be done on a small machine.
#   CHECKMATE=build/checkmate   the program
#   CHECK_ONNX="FILE ..."       ONNX files; default: ../shared/data/onnx/*.onnx
#   CHECK_NETWORKS="NAME ..."   only these networks of the zoo
#   CHECK_DIR=FOLDER            keeps finished lines there, so that running it again continues
#   CHECK_MOST_MB=6000          networks that take more without rematerialization are left out, and that is said
# Exit status 1 when a network fails.
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 1
. scripts/lib.sh
checkmate=${CHECKMATE:-build/checkmate}
need_program "$checkmate"
networks=${CHECK_NETWORKS-$("$checkmate" models --all | sed -n 's/^  \([^ ]*\) .*/\1/p')}
files=${CHECK_ONNX-$(ls ../shared/data/onnx/*.onnx 2> /dev/null)}
most=$((${CHECK_MOST_MB:-6000} * 1000000))
work=$(mktemp -d) || exit 1
kept=${CHECK_DIR:-$work}
mkdir -p "$kept"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# train BUDGET: exit status in $status, output in out, messages in err.
train() {
    status=0
    "$checkmate" train "$model" --data synthetic --samples 8 $shape --batch 2 --fused --momentum 0 --lr 1e-7 \
        --costs flops --time-limit 2 --steps 2 --budget "$1" --check --json > "$work/out" 2> "$work/err" || status=$?
}

# The smallest input that the network takes, as an option; nothing when it takes no image, or only its own size.
choose_shape() {
    for side in 32 64 96 128 192 224 256 288; do
        shape="--input-shape $side,$side,3"
        if "$checkmate" graph "$model" $shape --batch 2 --granularity op > "$work/graph" 2> /dev/null; then
            return
        fi
    done
    shape=''
    "$checkmate" graph "$model" --batch 2 --granularity op > "$work/graph" 2> /dev/null || true
}

# check MODEL LABEL: prints its line.
check() {
    model=$1
    line=$kept/$2.line
    if [ ! -s "$line" ]; then
        choose_shape
        bytes=$(sed -n 's/^peak memory *\([0-9.]*\) \([kMGT]*\)B .*/\1 \2/p' "$work/graph" |
            awk '{ unit["k"] = 1e3; unit["M"] = 1e6; unit["G"] = 1e9; unit["T"] = 1e12; printf "%.0f", $1 * ($2 == "" ? 1 : unit[$2]) }')
        input=${shape#--input-shape }
        if [ -n "$bytes" ] && [ "$bytes" -gt "$most" ]; then
            printf '%-20s %-12s left out: takes %s MB without rematerialization\n' "$2" "${input:--}" $((bytes / 1000000)) > "$line"
        else
            # Tight enough that something is recomputed. Networks of a few layers may fit only without recomputation.
            train 70%
            # Kernels take memory in addition to the plan, with oneDNN 3 more than with 2, so the least may be close to the total.
            for budget in 76% 82% 88% 94% 96% 98% 100% auto; do
                [ $status -eq 3 ] || [ $status -eq 4 ] || break
                train $budget
            done
            if [ $status -eq 0 ]; then
                printf '%-20s %-12s equal        %5s operators %5s recomputations  loss %.4f to %.4f\n' "$2" "${input:--}" \
                    "$(value operators "$work/out")" "$(value recomputations "$work/out")" "$(value first_loss "$work/out")" \
                    "$(value last_loss "$work/out")" > "$work/line"
                mv "$work/line" "$line"
            else
                printf '%-20s %-12s FAILED       %s\n' "$2" "${input:--}" "$(tail -n 1 "$work/err" | cut -c 1-300)"
                failed=$((failed + 1))
                return
            fi
        fi
    fi
    cat "$line"
    checked=$((checked + 1))
}

failed=0 checked=0
for name in $networks; do
    check "$name" "$name"
done
for file in $files; do
    check "$file" "$(basename "$file")"
done
printf '%s networks, %s failed\n' $((checked + failed)) "$failed"
[ "$failed" -eq 0 ]
