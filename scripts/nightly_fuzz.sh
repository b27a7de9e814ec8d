#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fuzzes every target for a while under AddressSanitizer and UndefinedBehaviorSanitizer, says how many inputs were run,
# and shows how much of each reader the corpus reaches. What breaks something is left in the folder of artifacts.
# Usage: scripts/nightly_fuzz.sh [BUILD_FOLDER]       (default: build/fuzz)
#   CKM_FUZZ_SECONDS=600         seconds a target
#   CKM_FUZZ_TARGETS="onnx npy"  those targets only; default: all of tests/fuzz/fuzz_*.c
#   CKM_FUZZ_COVERAGE=0          without the coverage build at the end
# New inputs are kept in BUILD_FOLDER/found/<target>, from one night to the next. To add what they reach to the tree:
#   BUILD_FOLDER/fuzz/fuzz_<target> -merge=1 tests/fuzz/corpus/<target> BUILD_FOLDER/found/<target>
# Exit status 1 when something broke or a target reaches too little of its reader.
set -eu
cd "$(dirname "$0")/.."

. scripts/clang.sh
build=${1:-build/fuzz}
seconds=${CKM_FUZZ_SECONDS:-600}
targets=${CKM_FUZZ_TARGETS:-$(for source in tests/fuzz/fuzz_*.c; do basename "$source" .c | sed 's/^fuzz_//'; done)}
mkdir -p "$build/artifacts"
# shellcheck disable=SC2086
cmake -S . -B "$build" -DCMAKE_C_COMPILER="clang-$clang" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCKM_BUILD_TESTS=OFF -DCKM_FUZZ=ON \
    -DCKM_SANITIZE=address,undefined ${CKM_CMAKE_ARGUMENTS:-} >"$build/configure.log" 2>&1 || { cat "$build/configure.log"; exit 1; }
cmake --build "$build" --parallel "$(nproc)" >"$build/build.log" 2>&1 || { tail -n 40 "$build/build.log"; exit 1; }

broken=""
for target in $targets; do
    mkdir -p "$build/found/$target"
    set -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 \
        -artifact_prefix="$build/artifacts/$target-"
    [ ! -f "tests/fuzz/$target.dict" ] || set -- "$@" "-dict=tests/fuzz/$target.dict"
    status=0
    UBSAN_OPTIONS=print_stacktrace=1 "$build/fuzz/fuzz_$target" "$@" "$build/found/$target" "tests/fuzz/corpus/$target" \
        >"$build/$target.log" 2>&1 || status=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$target.log")
    printf '%-14s %10s inputs in %s s\n' "$target" "${runs:-?}" "$seconds"
    if [ "$status" -ne 0 ]; then
        broken="$broken $target"
        grep -E 'ERROR|runtime error|SUMMARY|Test unit written' "$build/$target.log" || tail -n 20 "$build/$target.log"
    fi
done
covered=0
if [ "${CKM_FUZZ_COVERAGE:-1}" != 0 ]; then
    CKM_FUZZ_CORPUS="$build/found" sh scripts/fuzz_coverage.sh "$build-coverage" || covered=1
fi
[ -z "$broken" ] || { echo "broken:$broken; the inputs are in $build/artifacts" >&2; exit 1; }
exit "$covered"
