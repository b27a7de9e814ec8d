#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every table of measured figures in the documents has the command that makes it next to it, and what scripts/tables.sh names is
# there. Planted tables are noticed.
set -eu
check=$CKM_SOURCE_DIR/scripts/check_figures.sh
sh "$check"
sh "$CKM_SOURCE_DIR/scripts/tables.sh" --check
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# planted WANTED LINE...: a page of these lines is fine (0) or not (1).
planted() {
    wanted=$1
    shift
    printf '%s\n' '# Page' '' "$@" > "$scratch/page.md"
    status=0
    sh "$check" "$scratch/page.md" > "$scratch/out" 2>&1 || status=$?
    [ "$status" -eq "$wanted" ] || { echo "status $status, wanted $wanted:"; cat "$scratch/page.md" "$scratch/out"; exit 1; }
}
table='| network | MB |
|---|---|
| VGG16 | 12.5 |'
planted 1 "$table"
planted 0 '`checkmate graph VGG16` prints:' '' "$table"
planted 0 "$table" '' '    CHECKMATE=build/checkmate sh scripts/zoo_table.sh'
planted 0 'All rows: [full](bench/results/full.md)' '' "$table" || exit 1
planted 1 '`checkmate graph VGG16` prints:' '' '## Another section' '' "$table"
planted 1 'The strategy `chain` and the file `bench.json`:' '' "$table"
planted 0 '| layer | version |' '|---|---|' '| a | `1.2.3` |' '| two | 15 |'
