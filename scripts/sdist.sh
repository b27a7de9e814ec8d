#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the sdist of the Python package, which needs the C libraries that scripts/setup.sh build installs. It is the folder
# python/ with the C sources in c/, and the same pyproject.toml but for the paths to them.
# Usage: scripts/sdist.sh [FOLDER]      (default: dist)
#   CKM_PYTHON=, CKM_WHEEL_TOOLS=   as for scripts/wheel.sh
# Exit status 77: the tools cannot be installed here.
set -eu
cd "$(dirname "$0")/.."
out=${1:-dist}
. scripts/python_tools.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$out" 2>/dev/null && [ -w "$out" ] || { echo "sdist.sh: $out cannot be written to" >&2; exit 1; }
mkdir -p "$work/tree/c"

# What builds and editors leave behind is no source. Links are followed: the licence is one.
copy() {
    tar c -h --exclude=__pycache__ --exclude='*.so*' --exclude='*~' --exclude='*.swp' -C "$1" $2 | tar x -C "$work/tree/$3"
}
copy python "README.md LICENSE src" .
copy . "CMakeLists.txt LICENSE NOTICE cmake include src" c
sed -e '/^# Left out of the sdist/,/^$/d' -e 's|^cmake.source-dir = "\.\."$|cmake.source-dir = "c"|' \
    -e 's|^metadata.version.input = "\.\./|metadata.version.input = "c/|' \
    -e 's|^# The C library is built from the tree around this folder;|# The C library is built from c/;|' \
    python/pyproject.toml >"$work/tree/pyproject.toml"
# Each of those lines was found, and no other leads out of the tree.
if [ "$(grep -c '^cmake.source-dir = "c"$\|^metadata.version.input = "c/' "$work/tree/pyproject.toml")" -ne 2 ] ||
    grep -n '\.\./\|"\.\."\|if\.state' "$work/tree/pyproject.toml" >&2; then
    echo "sdist.sh: python/pyproject.toml is not as this script expects it" >&2
    exit 1
fi

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y include/checkmate/base.h)}
export SOURCE_DATE_EPOCH
"$tools/bin/python" -m build --sdist --no-isolation --outdir "$work/sdist" "$work/tree" >"$work/log" 2>&1 ||
    { tail -n 40 "$work/log" >&2; echo "sdist.sh: the sdist cannot be made, see above" >&2; exit 1; }
sdist=$(echo "$work"/sdist/*.tar.gz)
part=$out/$(basename "$sdist").part
cp "$sdist" "$part" || { rm -f "$part"; echo "sdist.sh: $out cannot take the sdist" >&2; exit 1; }
mv "$part" "${part%.part}"
echo "$out/$(basename "$sdist"): $(wc -c <"$sdist") bytes"
