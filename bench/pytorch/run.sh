#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares training with PyTorch's on this machine; see README.md.
# Usage: bench/pytorch/run.sh [options of compare.py]
#        bench/pytorch/run.sh --losses [options of losses.py]
#        bench/pytorch/run.sh --accuracy [options of accuracy.py]   the table of docs/TRAINING.md
# CHECKMATE: the program (default build/release/checkmate or build/checkmate); CKM_TORCH_PYTHON: a python with torch.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

. "$root/bench/python.sh"
find_python torch PyTorch CKM_TORCH_PYTHON

program=${CHECKMATE:-}
for candidate in "$root/build/release/checkmate" "$root/build/checkmate"; do
    if [ -z "$program" ] && [ -x "$candidate" ]; then
        program=$candidate
    fi
done
if [ -z "$program" ]; then
    echo "bench/pytorch: build first (make), or set CHECKMATE to the program" >&2
    exit 1
fi
script=compare.py
if [ "${1:-}" = --losses ]; then
    script=losses.py
    shift
elif [ "${1:-}" = --accuracy ]; then
    shift
    for module in torchvision sklearn PIL safetensors; do
        find_python $module $module CKM_TORCH_PYTHON
    done
    script=accuracy.py
    set -- --page "$root/docs/TRAINING.md" "$@"
fi
exec "$python" "$here/$script" "$program" "$@"
