#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# On a machine with an NVIDIA GPU, a Python with PyTorch, and nothing else: unpacks the wheel, runs the tests that need a GPU, then
# measures within some minutes and writes bench/results/gpu.json and gpu.md; see README.md. Needs no network and no compiler.
# Usage: bench/gpu/run.sh [--wheel FILE | --tree] [options]      --help lists them; command.py has them
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
fail() {
    echo "bench/gpu/run.sh: $*" >&2
    exit 2
}

# Help and wrong options first: that needs no PyTorch.
any=""
for candidate in "${CKM_TORCH_PYTHON:-}" python3 /usr/bin/python3; do
    if [ -n "$candidate" ] && [ "$("$candidate" -c 'import sys; print(sys.version_info >= (3, 10))' 2>/dev/null)" = True ]; then
        any=$candidate
        break
    fi
done
[ -n "$any" ] || fail "needs Python 3.10 or newer with PyTorch; CKM_TORCH_PYTHON names it (now: ${CKM_TORCH_PYTHON:-python3})"
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
for argument; do
    case $argument in -h | --help) exec "$any" "$here/measure.py" --help ;; esac
done
said=$("$any" "$here/measure.py" --check=options "$@") || exit $?
eval "$said" # wheel, tree, device

# The user's own path stays, after ours: PyTorch itself may be there.
theirs=${PYTHONPATH:-}
. "$root/bench/python.sh"
find_python torch PyTorch CKM_TORCH_PYTHON
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "$python is older than Python 3.10"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
if [ -n "$tree" ]; then
    [ -n "${CHECKMATE_LIBRARY:-}" ] || fail "--tree: there is no library in build/: run make, or set CHECKMATE_LIBRARY"
    package=$root/python/src
    from="from the tree"
else
    if [ -z "$wheel" ]; then
        wheel=$(ls -t "$root"/dist/checkmate-*.whl 2>/dev/null | head -n 1)
        [ -n "$wheel" ] || fail "there is no wheel in dist/: 'make wheel' makes one on a Debian machine; or --wheel FILE, or --tree"
    fi
    [ -f "$wheel" ] || fail "$wheel is not a file"
    "$python" -m zipfile -e "$wheel" "$work/package" 2>/dev/null || fail "$wheel cannot be unpacked: it is no wheel, or damaged"
    package=$work/package
    from="from ${wheel##*/}"
    # The library is the wheel's own.
    unset CHECKMATE_LIBRARY
fi
PYTHONPATH=$package:$here:$root/bench/torch${theirs:+:$theirs}
export PYTHONPATH
# Before the tests: is there a GPU, does the package run?
"$python" "$here/measure.py" --check=device "$@" || exit $?
"$python" -c 'import checkmate; print("checkmate", checkmate.__version__, "from", checkmate.__file__)' >&2

tests="not run: the device is the CPU"
if [ "$device" = cuda ]; then
    if [ ! -f "$root/python/tests/test_torch_cuda.py" ]; then
        tests="not run: python/tests is not here"
    elif "$python" -c 'import pytest' 2>/dev/null; then
        code=0
        "$python" -m pytest -p no:cacheprovider -rs "$root/python/tests/test_torch_cuda.py" >"$work/tests" 2>&1 || code=$?
        cat "$work/tests" >&2
        summary=$(tail -n 1 "$work/tests" | sed 's/^[= ]*//; s/[= ]*$//')
        reason=$(sed -n 's/^SKIPPED \[[0-9]*\] .*\.py:[0-9]*: //p' "$work/tests" | head -n 1)
        # 5: no test was run.
        case "$code $summary" in
        "0 "*passed*) tests="passed ($summary)" ;;
        "0 "* | "5 "*) tests="skipped: ${reason:-$summary}" ;;
        *) tests="FAILED ($summary)" ;;
        esac
    else
        tests="not run: pytest is not installed"
    fi
    echo "tests on CUDA: $tests" >&2
fi
# In the background, since a shell heeds a signal only between commands; what was measured by then is written.
"$python" "$here/measure.py" --tests="$tests" --package="$from" "$@" &
running=$!
trap 'kill -TERM "$running" 2>/dev/null || true' HUP INT TERM
status=0
wait "$running" || status=$?
# A trap ends the first wait; the second one is for the process.
if kill -0 "$running" 2>/dev/null; then
    status=0
    wait "$running" || status=$?
fi
case $tests in FAILED*) [ "$status" -ne 0 ] || status=1 ;; esac
exit $status
