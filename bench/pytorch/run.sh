#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares training with PyTorch's on this machine; see README.md.
# Usage: bench/pytorch/run.sh [options of compare.py]
#        bench/pytorch/run.sh --losses [options of losses.py]
# CHECKMATE: the program (default build/release/checkmate or build/checkmate); CKM_TORCH_PYTHON: a python with torch.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

python=""
for candidate in "${CKM_TORCH_PYTHON:-}" python3 /usr/bin/python3; do
    if [ -n "$candidate" ] && "$candidate" -c "import torch" >/dev/null 2>&1; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "bench/pytorch: skipped: no python with PyTorch; set CKM_TORCH_PYTHON to one that has it"
    exit 77
fi

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
fi
exec "$python" "$here/$script" "$program" "$@"
