#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy over the library and the program: version 14, which the tree has no findings of, or what scripts/clang.sh says. Usage: scripts/tidy.sh [BUILD_FOLDER] [FILE...]
set -eu
cd "$(dirname "$0")/.."

. scripts/clang.sh
export CKM_CLANG="$clang"
command -v "clang-tidy-$clang" >/dev/null || { echo "tidy.sh: clang-tidy-$clang is missing, of the package of that name: scripts/setup.sh ci installs it" >&2; exit 1; }
build=${1:-build-tidy}
[ $# -eq 0 ] || shift
# The file that calls MPI is read where its header is.
mpi=OFF unread=cli_ranks_mpi.c
! command -v mpicc >/dev/null || mpi=ON unread=
if [ ! -f "$build/compile_commands.json" ]; then
    cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Debug -DCKM_BUILD_TESTS=OFF -DCKM_MPI=$mpi >/dev/null
fi
# Generated headers have to exist before anything that includes them is read.
if grep -q checkmate_generate "$build/Makefile" 2>/dev/null; then
    cmake --build "$build" --target checkmate_generate >/dev/null
fi
if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046 # the tree's names have no spaces
    set -- $(find src -name '*.c' ! -name "$unread")
fi
python3 scripts/tidy_files.py "$build" "$@"
