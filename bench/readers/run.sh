#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How long reading a file takes, and how much memory, for N/4 and N entries (default: 500,000): what grows faster than the
# file shows. Times are of the whole command, so those of `graph` hold the training graph and its file as well.
# Usage: CHECKMATE=build/checkmate bench/readers/run.sh [N]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
checkmate=${CHECKMATE:-$here/../../build/checkmate}
n=${1:-500000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# measure COMMAND...: seconds of processor time and megabytes at the most. (The file to resume from is refused, but only after it has been read.)
measure() {
    /usr/bin/python3 - "$@" <<'END'
import os, resource, subprocess, sys

with open(os.devnull, "w") as nowhere:
    subprocess.run(sys.argv[1:], stdout=nowhere, stderr=nowhere)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{used.ru_utime + used.ru_stime:.2f} s {used.ru_maxrss / 1024:.0f} MB")
END
}

printf '%-18s %-22s %-22s\n' file "$((n / 4)) entries" "$n entries"
for kind in onnx-chain onnx-weights onnx-external onnx-constants onnx-wide onnx-outputs onnx-concat safetensors; do
    for count in $((n / 4)) "$n"; do
        /usr/bin/python3 "$here/large_files.py" $kind "$count" "$work/file.onnx"
        case $kind in
        safetensors)
            got=$(measure "$checkmate" train linear8 --data synthetic --batch 1 --budget 100% --costs flops --steps 1 \
                --resume "$work/file.onnx")
            ;;
        *) got=$(measure "$checkmate" graph "$work/file.onnx" -o /dev/null) ;;
        esac
        [ "$count" -eq "$n" ] || first=$got
        rm -f "$work/file"*
    done
    printf '%-18s %-22s %-22s\n' $kind "$first" "$got"
done
