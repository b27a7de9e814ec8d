#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# On a machine with an NVIDIA GPU, a Python with PyTorch, and nothing else: unpacks the wheel, runs the tests that need a GPU, then
# measures within some minutes and writes bench/results/gpu.json and gpu.md; see README.md. Needs no network and no compiler.
# Usage: bench/gpu/run.sh [--wheel FILE | --tree] [options of measure.py]
#   --wheel FILE           the wheel of `make wheel` (default: the newest in dist/)
#   --tree                 this tree's package and library (CHECKMATE_LIBRARY, or that of build/) in a wheel's place
#   --minutes 10           for the measurements      --output FILE.json     --scale 0.25     smaller batches, for a smaller GPU
#   --device cpu --small   everything, on a CPU with small models
#   CKM_TORCH_PYTHON       a python with torch
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
fail() {
    echo "bench/gpu/run.sh: $*" >&2
    exit 2
}
wheel="" tree="" device=cuda before=""
# Ours are taken out, the rest is handed on; the device is looked at.
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    case $before$argument in
    --tree) tree=1 ;;
    --wheel)
        [ "$count" -gt 0 ] || fail "--wheel needs a file"
        wheel=$1
        shift
        count=$((count - 1))
        ;;
    --wheel=*) wheel=${argument#--wheel=} ;;
    *)
        case $before$argument in --device=cpu | --devicecpu) device=cpu ;; esac
        set -- "$@" "$argument"
        ;;
    esac
    before=""
    [ "$argument" != --device ] || before=--device
done

. "$root/bench/python.sh"
find_python torch PyTorch CKM_TORCH_PYTHON
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
if [ -n "$tree" ]; then
    [ -n "${CHECKMATE_LIBRARY:-}" ] || fail "--tree: there is no library in build/: run make, or set CHECKMATE_LIBRARY"
    package=$root/python/src
else
    if [ -z "$wheel" ]; then
        wheel=$(ls -t "$root"/dist/checkmate-*.whl 2>/dev/null | head -n 1)
        [ -n "$wheel" ] || fail "there is no wheel in dist/: 'make wheel' makes one on a Debian machine; or --wheel FILE"
    fi
    [ -f "$wheel" ] || fail "$wheel is not a file"
    "$python" -m zipfile -e "$wheel" "$work/package" || fail "$wheel cannot be unpacked: it is no wheel, or damaged"
    package=$work/package
    # The library is the wheel's own.
    unset CHECKMATE_LIBRARY
fi
PYTHONPATH=$package:$here:$root/bench/torch
export PYTHONPATH
"$python" -c 'import checkmate; print("checkmate", checkmate.__version__, "from", checkmate.__file__)' >&2 || fail "the package does not run here, see above"

tests="not run: the device is the CPU"
if [ "$device" = cuda ]; then
    if "$python" -c 'import pytest' 2>/dev/null; then
        tests=passed
        (cd "$root/python" && "$python" -m pytest -p no:cacheprovider -q -rs tests/test_torch_cuda.py) >"$work/tests" 2>&1 || tests="FAILED"
        cat "$work/tests" >&2
        tests="$tests ($(tail -n 1 "$work/tests" | tr -d '='))"
    else
        tests="not run: pytest is not installed"
    fi
    echo "tests on CUDA: $tests" >&2
fi
status=0
"$python" "$here/measure.py" --tests "$tests" "$@" || status=$?
case $tests in FAILED*) [ "$status" -ne 0 ] || status=1 ;; esac
exit $status
