#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every allocation, fork and thread that the commands of the program and the C interface make fails in turn: what
# `make test` samples, without leaving any out. Takes some hours. Usage: nightly_faults.sh [BUILD]
#   CKM_FAULT_RUNS     how many of each command (0, the default here: every one)
#   CKM_FAULT_SECONDS  time for each command (default 1800; 0: no limit). What a limit left out is seen in the lines
#                      "N allocations, M runs".
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
build=$(cd "$build" && pwd)
CKM_FAULT_SWEEP=$build/tests/fault_sweep
CKM_FAULT_PRELOAD=$build/tests/fault_preload.so
CKM_API_TOUR=$build/tests/api_tour
CHECKMATE=$build/checkmate
CKM_FAULT_RUNS=${CKM_FAULT_RUNS:-0}
CKM_FAULT_SECONDS=${CKM_FAULT_SECONDS:-1800}
export CKM_FAULT_SWEEP CKM_FAULT_PRELOAD CKM_API_TOUR CHECKMATE CKM_FAULT_RUNS CKM_FAULT_SECONDS
for file in "$CKM_FAULT_SWEEP" "$CKM_FAULT_PRELOAD" "$CKM_API_TOUR" "$CHECKMATE"; do
    [ -e "$file" ] || { echo "$file is missing: build with -DCKM_BUILD_TESTS=ON and without sanitizers" >&2; exit 2; }
done
failed=0
for test in allocation_failures process_failures; do
    echo "== $test"
    sh "tests/cli/$test.sh" || failed=1
done
exit $failed
