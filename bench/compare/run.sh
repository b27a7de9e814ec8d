#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same problems through four solvers, one after the other on the same machine, round after round:
#
#   auto       this project's default
#   cbc        the paper's integer program through CBC          (checkmate solve -s ilp --formulation paper)
#   highs      the paper's integer program through HiGHS        (milp_highs.py)
#   cp-sat     MOCCASIN's retention intervals through CP-SAT    (moccasin_cpsat.py)
#
# and for each: when it had a schedule at most 0.01 % more expensive than the best of auto, and when it had proven a bound at
# least as high as auto's less 0.01 %.
#
#   bench/compare/run.sh [--seconds S] [--rounds N] [--output NAME] [--machine TEXT] [GRAPH.json BUDGET]...
#
# Without graphs: unit chains of 8 and 16 layers, MobileNet, fcn_8_vgg and ResNet50. Needs python3; HiGHS and OR-tools
# come from PyPI into a folder outside of the tree. `run.sh --disk [OPTION...]` compares chains with a disk instead, with PyPI's
# checkpoint-schedules (disk_revolve.py):
#   CKM_BENCH_VENV=${TMPDIR:-/tmp}/checkmate-bench-venv    CHECKMATE=build/checkmate    THREADS=2
set -eu
LC_ALL=C
export LC_ALL
program=$0
seconds=60 rounds=1 output=compare machine="$(nproc 2>/dev/null || echo '?') cores, $(uname -m)"
disk=no
while [ $# -gt 0 ]; do
    case $1 in
    --disk) disk=yes; shift; break ;;
    --seconds) seconds=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    --output) output=$2; shift 2 ;;
    --machine) machine=$2; shift 2 ;;
    -h | --help) sed -n '3,20s/^# \{0,1\}//p' "$program"; exit 0 ;;
    -*) echo "compare: unknown option $1" >&2; exit 2 ;;
    *) break ;;
    esac
done
here=$(cd "$(dirname "$0")" && pwd)
checkmate=${CHECKMATE:-$here/../../build/checkmate}
threads=${THREADS:-2}
venv=${CKM_BENCH_VENV:-${TMPDIR:-/tmp}/checkmate-bench-venv}
[ -x "$checkmate" ] || { echo "compare: $checkmate is not there; run 'make' first, or set CHECKMATE" >&2; exit 1; }

if [ "$disk" = yes ]; then
    if ! "$venv/bin/python" -c 'import checkpoint_schedules' 2> /dev/null; then
        echo "compare: installing checkpoint-schedules from PyPI into $venv" >&2
        if ! python3 -m venv "$venv" || ! "$venv/bin/python" -m pip install --quiet checkpoint-schedules >&2; then
            echo "compare: checkpoint-schedules cannot be had: is PyPI reachable? It is needed for this comparison only;" >&2
            echo "compare: with it installed elsewhere, set CKM_BENCH_VENV to that virtual environment." >&2
            exit 1
        fi
    fi
    CHECKMATE=$checkmate exec "$venv/bin/python" "$here/disk_revolve.py" "$@"
fi
if ! "$venv/bin/python" -c 'import highspy, ortools' 2> /dev/null; then
    echo "compare: installing highspy and ortools from PyPI into $venv" >&2
    if ! python3 -m venv "$venv" || ! "$venv/bin/python" -m pip install --quiet highspy ortools numpy >&2; then
        echo "compare: HiGHS and OR-tools cannot be had: is PyPI reachable? They are needed for this comparison only;" >&2
        echo "compare: with them installed elsewhere, set CKM_BENCH_VENV to that virtual environment." >&2
        exit 1
    fi
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/checkmate-compare.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
if [ $# -eq 0 ]; then
    for n in 8 16; do
        sh "$here/../chain_graph.sh" $n > "$work/chain$n.json"
    done
    "$checkmate" graph MobileNet --granularity layer --batch 128 -o "$work/MobileNet.json" >&2
    # As published: without parameters.
    "$checkmate" graph fcn_8_vgg --granularity layer --batch 32 -o - | sed 's/"fixed_bytes": *[0-9]*/"fixed_bytes": 0/' \
        > "$work/fcn_8_vgg.json"
    "$checkmate" graph ResNet50 --granularity layer --batch 256 -o "$work/ResNet50.json" >&2
    set -- "$work/chain8.json" 5 "$work/chain16.json" 6 "$work/MobileNet.json" 60% "$work/fcn_8_vgg.json" 70% \
        "$work/ResNet50.json" 80%
fi
"$venv/bin/python" "$here/compare.py" --checkmate "$checkmate" --threads "$threads" --seconds "$seconds" \
    --rounds "$rounds" --machine "$machine" --output "$here/../results/$output" "$@"
