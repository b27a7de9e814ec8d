#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Begins a strategy: copies the two skeletons under its name and adds its line to the list. See docs/HOWTO-strategy.md.
#
#   scripts/new_strategy.sh NAME [FOLDER]
#
#   NAME     what --strategy takes: small letters, digits and hyphens
#   FOLDER   write below this folder instead of into the tree, with a copy of the list
set -eu
LC_ALL=C
export LC_ALL
root=$(cd "$(dirname "$0")/.." && pwd)
name=${1:-}
to=${2:-$root}

case $name in
'' | -* | *- | *[!a-z0-9-]* | [0-9]*)
    echo "new_strategy.sh: NAME is small letters, digits and hyphens and begins with a letter; got '$name'" >&2
    exit 2
    ;;
esac
if [ ${#name} -gt 40 ]; then
    echo "new_strategy.sh: NAME has ${#name} characters; 40 are the most" >&2
    exit 2
fi
symbol=$(echo "$name" | tr - _)
list=src/solve/strategies/solve_registry.h
source=src/solve/strategies/solve_$symbol.c
test=tests/unit/solve/test_solve_$symbol.c

if [ "$to" != "$root" ]; then
    mkdir -p "$to/${source%/*}" "$to/${test%/*}"
    cp "$root/$list" "$to/$list"
fi
if grep -q "STRATEGY($symbol)" "$to/$list" || [ -e "$root/$source" ] || [ -e "$root/$source.in" ] ||
    [ -e "$root/$test" ]; then
    echo "new_strategy.sh: $name is there already" >&2
    exit 1
fi
fill() {
    sed -e "s/@name@/$name/g" -e "s/@symbol@/$symbol/g" "$root/$1" >"$to/$2"
}
fill src/solve/strategies/solve_template.c.in "$source"
fill tests/unit/solve/test_solve_template.c.in "$test"
# After the last line of the list, which is the only one that does not go on.
awk -v line="    STRATEGY($symbol)" '
    /^    STRATEGY\(.*\)$/ { printf "%-34s \\\n%s\n", $0, line; next }
    { print }' "$to/$list" >"$to/$list.new"
mv "$to/$list.new" "$to/$list"
[ "$to" != "$root" ] || printf '%s\n' "$source" "$test" "$list"
