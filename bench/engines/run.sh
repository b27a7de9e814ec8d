#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares HiGHS with Clp and CBC on the library's calls of an engine, alternating on the same machine. Two programs are linked from the
# same objects, one with each (coin_by_highs.c), and each line of the tables is of the same calls. Two tables, in Markdown:
# relaxations of bench/graphs with cutting planes, by processor seconds to the bound that both reach; and whole solves, by what
# they have found and proven within the limit.
#
#   bench/engines/run.sh [BUILD]        (default: build, with libcheckmate.a in it)
#     CKM_ENGINES_RELAXATIONS="GRAPH:PERCENT:ROWS..."      CKM_ENGINES_SOLVES="GRAPH:PERCENT:STRATEGY:SECONDS..."
#     CKM_ENGINES_TURNS=3          number of runs, of which the fastest counts
#     CKM_ENGINES_RESULTS=FOLDER   results, which are not made again (default: a temporary one)
#
# GRAPH is a name in bench/graphs, or one of the zoo with its batch, as in MobileNet@512: by layers and without parameters.
# Needs libhighs-dev, which Debian has from 13 on.
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/../.."
build=${1:-build}
turns=${CKM_ENGINES_TURNS:-3}
pkg-config --exists highs || { echo "engines: HiGHS is missing (Debian package libhighs-dev, from Debian 13 on)" >&2; exit 77; }
[ -e "$build/libcheckmate.a" ] || { echo "engines: $build/libcheckmate.a is not there; run 'make' first" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
results=${CKM_ENGINES_RESULTS:-$work/results}
mkdir -p "$results"

flags="-std=c17 -D_POSIX_C_SOURCE=200809L -O2 -Isrc -Iinclude -I$build/include"
others=$(PKG_CONFIG_PATH=$build:${PKG_CONFIG_PATH:-} pkg-config --static --libs-only-l checkmate |
    sed 's/-lcheckmate//; s/-lCbcSolver//; s/-lClp//')
# Debian's highs.pc names the folders of its own build.
# shellcheck disable=SC2086 # flags are words
{
    ${CC:-cc} $flags -c bench/engines/engines.c -o "$work/engines.o"
    ${CC:-cc} $flags $(pkg-config --cflags highs) -I/usr/include/highs -c bench/engines/coin_by_highs.c -o "$work/coin_by_highs.o"
    ${CC:-cc} -o "$work/coin" "$work/engines.o" "$build/libcheckmate.a" -lCbcSolver -lClp $others -lstdc++
    ${CC:-cc} -o "$work/highs" "$work/engines.o" "$work/coin_by_highs.o" "$build/libcheckmate.a" $(pkg-config --libs highs) $others -lstdc++
}

graph_of() {
    case $1 in
    *@*)
        [ -s "$results/$1.json" ] || "$build/checkmate" graph "${1%@*}" --granularity layer --batch "${1#*@}" -o - |
            sed 's/"fixed_bytes": *[0-9]*/"fixed_bytes": 0/' >"$results/$1.json"
        echo "$results/$1.json"
        ;;
    *) echo "bench/graphs/$1.json" ;;
    esac
}

# run MODE GRAPH PERCENT WHAT SECONDS: with both, in turns.
run() {
    path=$(graph_of "$2")
    for turn in $(seq "$turns"); do
        for engine in coin highs; do
            file=$results/$1.$2.$3.$4.$turn.$engine
            [ -s "$file" ] || { "$work/$engine" "$1" "$path" "$3" "$4" "$5" >"$work/out" && mv "$work/out" "$file"; }
        done
    done
}

# seconds_to BOUND FILE...: the least processor seconds to the bound, less a ten-thousandth of it.
seconds_to() {
    bound=$1
    shift
    awk -v bound="$bound" '$2 >= bound - 1e-4 * (bound < 0 ? -bound : bound) && (least == "" || $1 < least) { least = $1 } END { print least }' "$@"
}

echo "| graph | budget | rows | bound that both reach | Clp, s | HiGHS, s | HiGHS / Clp |"
echo "|---|---|---|---|---|---|---|"
for case in ${CKM_ENGINES_RELAXATIONS-$(for graph in bart bert dit edgenext gpt2 qwen3 swin_timm t5 unet2d vit; do echo $graph:50:20000 $graph:35:20000; done)}; do
    graph=${case%%:*} rest=${case#*:}
    run relaxation "$graph" "${rest%:*}" "${rest#*:}" 600
    set -- "$results/relaxation.$graph.${rest%:*}.${rest#*:}".*
    bound=$(for file in "$@"; do tail -n 1 "$file"; done | awk 'NR == 1 || $2 < least { least = $2 } END { printf "%.9g", least }')
    coin=$(seconds_to "$bound" $(printf '%s\n' "$@" | grep 'coin$'))
    highs=$(seconds_to "$bound" $(printf '%s\n' "$@" | grep 'highs$'))
    echo "| $graph | ${rest%:*}% | ${rest#*:} | $bound | $coin | $highs | $(awk -v a="$highs" -v b="$coin" 'BEGIN { printf "%.2f", a / b }') |"
done
echo
echo "| graph | budget | strategy | limit, s | engines | seconds | cost | bound | calls and seconds of components |"
echo "|---|---|---|---|---|---|---|---|---|"
for case in ${CKM_ENGINES_SOLVES-$(for graph in unet@16 MobileNet@512 VGG16@256 VGG19@256 ResNet50@256; do echo "$graph:80:ilp:60 $graph:70:ilp:60"; done) $(for graph in dit edgenext t5 vit; do echo "$graph:35:auto:15"; done)}; do
    graph=${case%%:*} rest=${case#*:}
    percent=${rest%%:*} rest=${rest#*:}
    strategy=${rest%:*} seconds=${rest#*:}
    run solve "$graph" "$percent" "$strategy" "$seconds"
    for engine in coin highs; do
        # The turn with the least cost, then the largest bound, then the least time.
        cat "$results/solve.$graph.$percent.$strategy".*."$engine" | sort -k2,2n -k3,3nr -k1,1n | head -n 1 | {
            read -r took cost bound uses
            echo "| $graph | $percent% | $strategy | $seconds | $([ $engine = coin ] && echo 'Clp, CBC' || echo HiGHS) | $took | $cost | $bound | $uses |"
        }
    done
done
