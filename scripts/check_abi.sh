#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares the C interface with that of the last release, which abi/ holds, so that it changes only on purpose.
# Usage: scripts/check_abi.sh BUILD_FOLDER [--update]
# BUILD_FOLDER is a build by gcc with debug information (CMAKE_BUILD_TYPE Debug or RelWithDebInfo).
# --update writes what the build has into abi/, unless programs would break without a new soname (docs/ARCHITECTURE.md,
# "The C interface over time").
set -eu
[ $# -ge 1 ] && [ -d "$1" ] || { echo "usage: check_abi.sh BUILD_FOLDER [--update]" >&2; exit 2; }
build=$(cd "$1" && pwd)
update=${2:-}
cd "$(dirname "$0")/.."
for tool in abidw abidiff readelf; do
    command -v $tool >/dev/null || { echo "check_abi.sh: $tool is missing, of package $([ $tool = readelf ] && echo binutils || echo abigail-tools): scripts/setup.sh package installs it" >&2; exit 1; }
done
library=$build/libcheckmate.so
[ -e "$library" ] || { echo "check_abi.sh: $library is not there: build it first" >&2; exit 1; }
readelf -S "$library" | grep -q '\.debug_info' ||
    { echo "check_abi.sh: $library has no debug information: configure with -DCMAKE_BUILD_TYPE=Debug" >&2; exit 1; }
soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
known=abi/$soname.xml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Types that no public header defines are known by name only, as programs know them. abidw has --headers-dir for this, which
# takes an internal header for a public one of the same name; the label is the one by which it knows its own rule. Line
# numbers, which change with every line, and the folders of this machine are left out.
cat >"$work/private" <<'END'
[suppress_type]
label = Artificial private types suppression specification
source_location_not_regexp = include/checkmate/[a-z_0-9]*\.h$
drop = yes
END
abidw --suppressions "$work/private" --drop-undefined-syms --exported-interfaces-only --no-show-locs --no-corpus-path \
    --no-comp-dir-path --type-id-style hash "$library" | sed "s,path='[^']*/,path='," >"$work/now.xml"
[ -s "$work/now.xml" ] || { echo "check_abi.sh: abidw says nothing about $library" >&2; exit 1; }

if [ ! -e "$known" ]; then
    [ "$update" = --update ] ||
        { echo "check_abi.sh: $known is not there: the soname is new; scripts/check_abi.sh $1 --update describes it" >&2; exit 1; }
    mkdir -p abi
    cp "$work/now.xml" "$known"
    echo "check_abi.sh: wrote $known"
    exit 0
fi
status=0
# Harmless changes too, such as a new enumerator; each change once, not for every function that it reaches.
abidiff --harmless --leaf-changes-only "$known" "$work/now.xml" >"$work/report" 2>&1 || status=$?
# abidiff's bits: 1 failed, 2 wrong usage, 4 the interface changed, 8 in a way that breaks programs.
if [ $((status & 3)) -ne 0 ]; then
    cat "$work/report" >&2
    exit 1
fi
if [ "$status" -eq 0 ]; then
    echo "the interface is that of $known"
    exit 0
fi
cat "$work/report"
if [ $((status & 8)) -ne 0 ]; then
    echo "check_abi.sh: programs linked to $soname would break: undo it, or raise the minor version in include/checkmate/base.h" >&2
    exit 1
fi
if [ "$update" = --update ]; then
    cp "$work/now.xml" "$known"
    echo "check_abi.sh: wrote $known"
    exit 0
fi
echo "check_abi.sh: the interface is not that of $known. If that is on purpose and docs/ARCHITECTURE.md allows it with the same" \
    "soname: scripts/check_abi.sh $1 --update, and a line in debian/libcheckmate0.symbols for a new function" >&2
exit 1
