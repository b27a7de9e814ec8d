#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Training through the library, whose threads wait for each other (src/run/cpu/cpu_waiting.h), in turns with the other ways to
# wait: that of GNU's OpenMP alone, and two that the caller's environment may set. Rows: the machine as it is; with LOAD other busy
# processes; and, as root, with real-time priority (chrt), which simulates a quiet machine. Prints the
# median step. Losses must be the same bits.
#
#   bench/waiting.sh BUILD [ROUNDS [LOAD]]     ROUNDS: 5, LOAD: four a processor; 0: without that row
set -eu
LC_ALL=C
export LC_ALL
[ $# -ge 1 ] || { sed -n '3,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$(readlink -f "$1") rounds=${2:-5} threads=$(nproc)
load=${3:-$((4 * threads))}
bench=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/checkmate-waiting.XXXXXX")
others=
stop_others() { for process in $others; do kill "$process" 2>/dev/null || :; done; others=; }
trap 'stop_others; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
${CC:-cc} -std=c17 -D_POSIX_C_SOURCE=200809L -O2 -I"$bench/../include" "$bench/waiting.c" -o "$work/waiting" \
    -L"$build" -lcheckmate -Wl,-rpath,"$build"
unset GOMP_SPINCOUNT OMP_WAIT_POLICY

# row NAME STEPS COMMAND...: COMMAND begins the line that trains.
row() {
    name=$1 steps=$2
    shift 2
    rm -f "$work"/times.*
    i=0
    while [ $i -lt "$rounds" ]; do
        for way in as=is GOMP_SPINCOUNT=300000 GOMP_SPINCOUNT=1000 OMP_WAIT_POLICY=passive; do
            env "$way" "$@" "$work/waiting" MobileNet 8 64 "$threads" "$steps" >"$work/line"
            cut -d' ' -f1 "$work/line" >>"$work/times.$way"
            cut -d' ' -f3 "$work/line" >>"$work/losses.$steps"
        done
        i=$((i + 1))
    done
    printf '| %s |' "$name"
    for way in as=is GOMP_SPINCOUNT=300000 GOMP_SPINCOUNT=1000 OMP_WAIT_POLICY=passive; do
        sort -g "$work/times.$way" | awk '{ t[NR] = $1 } END { printf " %.1f |", t[int((NR + 1) / 2)] }'
    done
    echo
}

echo "| MobileNet, batch 8, 64 x 64, $threads threads: ms a step | library | OpenMP alone | GOMP_SPINCOUNT=1000 | OMP_WAIT_POLICY=passive |"
echo "|---|---|---|---|---|"
row "as it is" 10 env
if [ "$load" -gt 0 ]; then
    i=0
    while [ $i -lt "$load" ]; do
        sh -c 'while :; do :; done' &
        others="$others $!"
        i=$((i + 1))
    done
    row "with $load busy processes" 10 env
    stop_others
fi
if chrt -f 10 true 2>/dev/null; then
    row "undisturbed" 10 chrt -f 10
fi
[ "$(sort -u "$work/losses.10" | wc -l)" = 1 ] || { echo "waiting.sh: losses differ" >&2; exit 1; }
