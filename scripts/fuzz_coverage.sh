#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How much of each reader the corpus of its fuzz target reaches: builds the targets with clang's source coverage, replays
# tests/fuzz/corpus and prints regions and branches covered (a branch is one outcome of one condition, the edges of the
# control flow graph) in the files of the reader, without functions that write.
# Usage: scripts/fuzz_coverage.sh [BUILD_FOLDER]       (default: build/fuzz-coverage)
# CKM_FUZZ_CORPUS=FOLDER replays FOLDER/<target> besides. Exit status 1 when a target covers less than CKM_FUZZ_LEAST
# (60) percent of the branches.
set -eu
cd "$(dirname "$0")/.."

build=${1:-build/fuzz-coverage}
least=${CKM_FUZZ_LEAST:-60}
. scripts/clang.sh
profdata=llvm-profdata-$clang
cov=llvm-cov-$clang
for tool in "clang-$clang" "$profdata" "$cov"; do
    command -v "$tool" >/dev/null 2>&1 || { echo "fuzz_coverage.sh: $tool is missing; scripts/setup.sh ci installs it" >&2; exit 1; }
done

# readers TARGET: the files whose coverage counts.
readers() {
    case $1 in
    onnx) ls src/import/*.c | grep -v -e onnx_export -e onnx_external -e onnx_values ;;
    onnx_values) echo src/import/onnx_export.c src/import/onnx_external.c src/import/onnx_values.c src/import/onnx_wire.c \
        src/import/onnx_source.c ;;
    graph_json) echo src/dataflow/dataflow.c src/dataflow/dataflow_finish.c src/dataflow/dataflow_json.c src/base/json.c ;;
    schedule_json) echo src/schedule/schedule.c src/schedule/schedule_json.c src/schedule/schedule_simulate.c \
        src/schedule/schedule_verify.c src/base/json.c ;;
    safetensors) echo src/run/data/safetensors.c ;;
    training) ls src/run/cpu/ref_*.c src/ops/*/ref_*.c | grep -v -e ref_registry ;;
    profile) echo src/cost/cost_profile.c src/run/train/profile_file.c ;;
    device) echo src/cost/device_file.c src/cost/cost_device.c ;;
    npy) echo src/run/data/data_npy.c src/run/data/npy_header.c ;;
    idx) echo src/run/data/data_idx.c src/run/data/data_pixels.c ;;
    images) echo src/run/data/data_images.c src/run/data/image_file.c src/run/data/image_png.c src/run/data/image_jpeg.c src/run/data/data_cifar.c \
        src/run/data/data_pixels.c ;;
    *) echo "fuzz_coverage.sh: which files does $1 test? Say so in readers()" >&2; exit 1 ;;
    esac
}
# Functions in those files that read nothing: profiles' names and fingerprints, times of kernels in no file, and what writes.
not_readers='write_op|profile_write|device_time|in_half|countable|fingerprint|make_folder|add_text|cache_path|profile_platform'

targets=""
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    targets="$targets $name"
done
flags="-fprofile-instr-generate -fcoverage-mapping"
# C++ links the targets, and brings what writes the profile.
cmake -S . -B "$build" -DCMAKE_C_COMPILER="clang-$clang" -DCMAKE_CXX_COMPILER="clang++-$clang" -DCMAKE_BUILD_TYPE=Debug \
    -DCKM_BUILD_TESTS=ON -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" \
    ${CKM_CMAKE_ARGUMENTS:-} >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
# shellcheck disable=SC2086
cmake --build "$build" --parallel "$(nproc)" --target $targets >"$build.log" 2>&1 || { tail -n 40 "$build.log"; exit 1; }

short=""
printf '%-14s %7s %9s %9s %10s %10s\n' target inputs regions covered branches covered
for name in $targets; do
    target=${name#fuzz_}
    corpus="tests/fuzz/corpus/$target"
    more=${CKM_FUZZ_CORPUS:+$CKM_FUZZ_CORPUS/$target}
    [ -n "$more" ] && [ -d "$more" ] || more=""
    # shellcheck disable=SC2086
    replayed=$(LLVM_PROFILE_FILE="$build/$name.profraw" "$build/fuzz/$name" "$corpus" $more | sed -n 's/^replayed \([0-9]*\) .*/\1/p')
    "$profdata" merge -sparse "$build/$name.profraw" -o "$build/$name.profdata"
    # One line a function: name, then regions, lines and branches, each with how many, how many missed, percent.
    # shellcheck disable=SC2046
    numbers=$("$cov" report "$build/fuzz/$name" -instr-profile="$build/$name.profdata" -show-functions $(readers "$target") |
        awk -v skip="$not_readers" 'NF == 10 && $2 ~ /^[0-9]+$/ && $1 != "TOTAL" && $1 !~ skip {
                regions += $2; missed += $3; branches += $8; untaken += $9 }
            END { if (regions == 0 || branches == 0) exit 1
                printf "%d %.1f %d %.1f", regions, 100 * (regions - missed) / regions, branches,
                    100 * (branches - untaken) / branches }')
    # shellcheck disable=SC2086
    set -- $numbers
    printf '%-14s %7s %9d %8s%% %10d %9s%%\n' "$target" "$replayed" "$1" "$2" "$3" "$4"
    awk -v have="$4" -v least="$least" 'BEGIN { exit !(have < least) }' && short="$short $target" || true
done
[ -z "$short" ] || { echo "less than $least% of the branches:$short" >&2; exit 1; }
