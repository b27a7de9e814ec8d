#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints this machine's processor for a row of a table: its name, and the last of SSE4.1, AVX, AVX2 and AVX-512 that it has, which
# decides what kernels run. Usage: scripts/processor.sh [FILE]      (default: /proc/cpuinfo)
set -eu
exec awk -F '[[:space:]]*:[[:space:]]*' '
    $1 == "model name" && !name { name = $2; gsub(/ +/, " ", name); sub(/ $/, "", name) }
    $1 == "flags" && !flags { flags = " " $2 " " }
    END {
        level = flags ~ / avx512f / ? "AVX-512" : flags ~ / avx2 / ? "AVX2" : flags ~ / avx / ? "AVX" : flags ~ / sse4_1 / ? "SSE4.1" : ""
        print (name ? name : "unknown processor") (level ? ", " level : "")
    }' "${1:-/proc/cpuinfo}"
