#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Keras models within budgets, and side by side with other ways to save memory; see README.md.
# Usage: bench/tf2/run.sh                       measures all that the records lack, then writes docs/TENSORFLOW.md's tables
#        bench/tf2/run.sh --budgets [options of budgets.py]
#        bench/tf2/run.sh --compare [options of compare.py]
#        bench/tf2/run.sh --planning [options of planning.py]   what planning takes; writes its table, and measures nothing else
#        bench/tf2/run.sh --loops [options of loops.py]         models and training loops, each tried; likewise
#        bench/tf2/run.sh --table               writes the tables and figures of what was measured
# CHECKMATE_LIBRARY: the library (default: that of build/); CKM_TF_PYTHON: a python with TensorFlow.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

. "$root/bench/python.sh"
find_python tensorflow TensorFlow CKM_TF_PYTHON
TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-3}
export TF_CPP_MIN_LOG_LEVEL
results=$root/bench/results
case ${1:-} in
--budgets)
    shift
    "$python" "$here/budgets.py" --records "$results/tf2-budgets.jsonl" "$@"
    ;;
--compare)
    shift
    "$python" "$here/compare.py" --records "$results/tf2.csv" "$@"
    ;;
--planning)
    shift
    exec "$python" "$here/planning.py" --page "$root/docs/TENSORFLOW.md" "$@"
    ;;
--loops)
    shift
    exec "$python" "$here/loops.py" --page "$root/docs/TENSORFLOW.md" "$@"
    ;;
--table) ;;
"")
    "$python" "$here/budgets.py" --records "$results/tf2-budgets.jsonl"
    "$python" "$here/compare.py" --records "$results/tf2.csv"
    ;;
*)
    sed -n 's/^# //p' "$0" >&2
    exit 2
    ;;
esac
"$python" "$here/table.py" "$results/tf2-budgets.jsonl" "$results/tf2.csv" "$root/docs/figures" "$root/docs/TENSORFLOW.md"
