#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All experiments, the most telling first, then docs/RESULTS.md; `make paper` runs it. It can be interrupted and started
# again: rows of the same program, processor and settings are not computed again, all others are.
set -eu
here=$(dirname "$0")
for experiment in batches devices stages budgets rounding; do
    echo "--- $experiment" >&2
    sh "$here/$experiment.sh"
done
sh "$here/batches_figure.sh"
sh "$here/budgets_figure.sh"
sh "$here/training_figure.sh"
sh "$here/results.sh"
