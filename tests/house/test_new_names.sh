#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What begins an operator, a strategy, a component or a back end refuses names that something else has, with one line and before it
# writes anything: a file would be overwritten, or a room get another rule for what it may include.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/tree"
cp -r "$CKM_SOURCE_DIR/src" "$CKM_SOURCE_DIR/tests" "$CKM_SOURCE_DIR/scripts" "$scratch/tree"
cp -r "$scratch/tree" "$scratch/before"
long=a23456789_123456789_123456789_123456789_1
count=0
refuse() {
    if sh "$scratch/tree/scripts/new_$1.sh" "$2" >"$scratch/out" 2>&1; then
        echo "new_$1.sh takes the name '$2'"
        exit 1
    fi
    [ "$(wc -l <"$scratch/out")" -eq 1 ] && grep -q "^new_$1.sh: \|^usage: " "$scratch/out" || {
        echo "new_$1.sh does not say in one line what is wrong with '$2':"
        cat "$scratch/out"
        exit 1
    }
    diff -r "$scratch/before" "$scratch/tree" || { echo "new_$1.sh refuses '$2' and writes all the same"; exit 1; }
    count=$((count + 1))
}
for name in cpu reference backend session train data far fake "$long" Bad ../up ''; do
    refuse backend "$name"
done
for name in auto dtr template registry chen-sqrt "$(echo "$long" | tr _ -)" Bad ../up ''; do
    refuse strategy "$name"
done
for name in runs single-cut template "$(echo "$long" | tr _ -)" Bad ../up ''; do
    refuse component "$name"
done
for name in conv skeleton activation records gradients shrink "$long" Bad ../up ''; do
    refuse operator "$name"
done
echo "$count names are refused"
