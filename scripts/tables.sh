#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the tables of measurements of the documents again.
#   tables.sh              lists them: name, the commit that last changed the figures, where they stand, the command
#   tables.sh NAME...      runs the commands of these, one after the other
#   tables.sh --all        runs all of them, which takes long: `make bench` alone 25 minutes
#   tables.sh --check      whether the files and programs named here are there
# Commands run in the root of the tree; most write their page or records themselves and continue after finished rows. What only prints is
# marked "prints": its table goes into the page by hand, with commit and processor. Exit status 1 if a command failed or skipped; the
# others run all the same. Needs Python with PyTorch, TensorFlow, HiGHS or OR-tools for some: each says what is missing.
#   CHECKMATE=build/checkmate   the program
set -eu
cd "$(dirname "$0")/.."

# NAME|FILE WITH THE FIGURES|COMMAND
tables='benchmark|bench/results/full.csv|make bench
zoo-bench|bench/results/zoo.csv|sh bench/run.sh --case "Operator graphs of the zoo" --output zoo
graphs|bench/results/graphs.csv|sh bench/run.sh --case "Traced by PyTorch" --output graphs
compare|bench/results/compare.csv|sh bench/compare/run.sh
disk|docs/SOLVER.md|sh bench/compare/run.sh --disk  # prints
claims|bench/results/claims.csv|python3 bench/claims.py --output bench/results/claims.csv
paper|docs/RESULTS.md|make paper
zoo|docs/zoo.csv|sh scripts/zoo_table.sh
moving|bench/results/moving.jsonl|python3 bench/moving.py --page docs/SOLVER.md
components|docs/MEASUREMENTS.md|python3 bench/ablate.py --time-limit 6 --seeds 2  # prints
near-floor|bench/results/near-floor.csv|python3 bench/near_floor.py --zoo --factors 1.02,1.1,1.5 --output bench/results/near-floor.csv
limits|docs/MEASUREMENTS.md|sh bench/limits.sh  # prints
engines|docs/MEASUREMENTS.md|sh bench/engines/run.sh  # prints
op-graph|docs/OPERATOR-GRAPH.md|sh scripts/op_graph_table.sh  # prints
training|docs/training.csv|sh scripts/train_table.sh
budgets|docs/budgets.csv|sh scripts/budget_table.sh
mpi|docs/DISTRIBUTED.md|sh scripts/mpi_table.sh  # prints
readers|docs/RELIABILITY.md|sh bench/readers/run.sh 500000  # prints
pytorch|bench/results/pytorch.jsonl|sh bench/pytorch/run.sh --records bench/results/pytorch.jsonl
accuracy|bench/results/pytorch-accuracy.jsonl|sh bench/pytorch/run.sh --accuracy
torch|bench/results/torch.csv|sh bench/torch/run.sh
torch-library|bench/results/torch-library.csv|sh bench/torch/run.sh --library
torch-inductor|bench/results/torch-library-inductor.csv|sh bench/torch/run.sh --inductor --library --shares 0.2,0.5,0.8
torch-zoo|docs/PYTORCH.md|sh bench/torch/run.sh --zoo  # prints
torch-outcomes|bench/results/torch-outcomes.jsonl|sh bench/torch/run.sh --outcomes
torch-first-step|bench/results/torch-first-step.jsonl|sh bench/torch/run.sh --first-step
torch-peaks|docs/PYTORCH.md|sh bench/torch/run.sh --peaks  # prints
torch-planning|docs/PYTORCH.md|sh bench/torch/run.sh --planning  # prints
torch-processes|bench/results/torch-sharded.jsonl|sh bench/torch/run.sh --processes
torch-parallel|bench/results/torch-parallel.md|sh bench/torch/run.sh --parallel
tf2|bench/results/tf2-budgets.jsonl|sh bench/tf2/run.sh
tf2-loops|bench/results/tf2-loops.jsonl|sh bench/tf2/run.sh --loops
onnx|docs/ONNX.md|python3 bench/onnx/conformance.py build/checkmate  # prints
gpu|bench/results/gpu-cpu.json|sh bench/gpu/run.sh'

# line_of NAME: its line
line_of() {
    echo "$tables" | grep "^$1|" || { echo "tables.sh: no table '$1'; without arguments, it lists them" >&2; exit 2; }
}

case ${1:-} in
'')
    echo "$tables" | while IFS='|' read -r name file command; do
        made=$(git log -1 --format='%h %cs' -- "$file" 2>/dev/null || true)
        printf '%-16s %-20s %-42s %s\n' "$name" "${made:-no checkout}" "$file" "$command"
    done
    exit 0
    ;;
--check)
    echo "$tables" | (
        bad=0
        while IFS='|' read -r name file command; do
            script=$(echo "$command" | sed -n 's/^\(sh\|python3\) \([^ ]*\).*/\2/p')
            for path in "$file" ${script:-Makefile}; do
                [ -f "$path" ] || { echo "tables.sh: $name: $path is not there"; bad=1; }
            done
        done
        exit $bad
    )
    exit 0
    ;;
--all) wanted=$(echo "$tables" | cut -d'|' -f1) ;;
-*)
    echo "tables.sh: unknown option '$1'" >&2
    exit 2
    ;;
*)
    wanted=$*
    for name in $wanted; do
        line_of "$name" >/dev/null
    done
    ;;
esac

bad=0
for name in $wanted; do
    command=$(line_of "$name" | cut -d'|' -f3-)
    echo "tables.sh: $name: $command ($(git rev-parse --short HEAD 2>/dev/null || echo 'no checkout'), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1))"
    sh -c "$command" || { echo "tables.sh: $name: failed" >&2; bad=1; }
done
exit $bad
