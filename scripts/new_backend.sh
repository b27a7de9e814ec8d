#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Begins a back end: copies the two skeletons under its name, adds its line to the list and its room to the include rule. See
# docs/HOWTO-backend.md.
#
#   scripts/new_backend.sh NAME [FOLDER]
#
#   NAME     what --back-end takes: small letters, digits and underscores
#   FOLDER   write below this folder instead of into the tree, with a copy of the list
set -eu
LC_ALL=C
export LC_ALL
root=$(cd "$(dirname "$0")/.." && pwd)
name=${1:-}
to=${2:-$root}

case $name in
'' | *[!a-z0-9_]* | [0-9_]*)
    echo "new_backend.sh: NAME is small letters, digits and underscores and begins with a letter; got '$name'" >&2
    exit 2
    ;;
esac
if [ ${#name} -gt 40 ]; then
    echo "new_backend.sh: NAME has ${#name} characters; 40 are the most" >&2
    exit 2
fi
list=src/run/backend/backend_list.h
rule=scripts/check_includes.sh
source=src/run/$name/${name}_backend.c
test=tests/unit/run/test_backend_$name.c

# A room of src/run is no back end: its row in the include rule would change.
taken=$(cd "$root" && find src tests scripts -path "src/run/$name" -o -name "${name}_backend.c" -o -path "$test")
if [ -n "$taken" ]; then
    echo "new_backend.sh: $name is there already: $(echo "$taken" | head -n 1)" >&2
    exit 1
fi
mkdir -p "$to/${source%/*}" "$to/${test%/*}"
if [ "$to" != "$root" ]; then
    mkdir -p "$to/${list%/*}" "$to/${rule%/*}"
    cp "$root/$list" "$to/$list"
    cp "$root/$rule" "$to/$rule"
fi
if grep -q "BACKEND($name)" "$to/$list"; then
    echo "new_backend.sh: $name is there already" >&2
    exit 1
fi
sed "s/@name@/$name/g" "$root/src/run/backend/backend_skeleton.c.in" >"$to/$source"
sed "s/@name@/$name/g" "$root/tests/unit/run/test_backend_skeleton.c.in" >"$to/$test"
# After the last line of the list, the only one without a continuation.
awk -v line="    BACKEND($name)" '
    /^    BACKEND\(.*\)$/ { printf "%-31s \\\n%s\n", $0, line; next }
    { print }' "$to/$list" >"$to/$list.new"
mv "$to/$list.new" "$to/$list"
# Its kernels may fall back on those of the reference.
sed "/^    part(\"run\", \"cpu\",/a\\    part(\"run\", \"$name\", \"backend cpu\")" "$to/$rule" >"$to/$rule.new"
cat "$to/$rule.new" >"$to/$rule"
rm "$to/$rule.new"
[ "$to" != "$root" ] || printf '%s\n' "$source" "$test" "$list" "$rule"
