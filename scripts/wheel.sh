#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the Python wheel, the planner-only build with every library that it links and their licences, for any Python from 3.10
# on: checkmate-VERSION-py3-none-manylinux_2_XX_x86_64.whl, XX being the oldest glibc that auditwheel grants.
# Usage: scripts/wheel.sh [FOLDER]      (default: dist)
#   CKM_PYTHON=/usr/bin/python3     the Python that runs the tools; the wheel does not depend on it
#   CKM_WHEEL_TOOLS=build/wheel-tools   the virtual environment for them
# Exit status 77: the tools cannot be installed here.
set -eu
cd "$(dirname "$0")/.."
out=${1:-dist}
max_bytes=15000000

fail() {
    echo "wheel.sh: $*" >&2
    exit 1
}
[ "$(uname -sm)" = "Linux x86_64" ] || fail "wheels are made on Linux on x86-64, this is $(uname -sm)"
command -v dpkg-query >/dev/null || fail "wheels are made on Debian or Ubuntu: dpkg-query says which licence each library has"
. scripts/python_tools.sh
mkdir -p "$out" 2>/dev/null && [ -w "$out" ] || fail "$out cannot be written to"
work=$(mktemp -d)
. scripts/waited.sh
trap 'stop_waited; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# The caller's flags may be for one processor; the same sources give the same wheel.
unset CFLAGS CXXFLAGS CPPFLAGS LDFLAGS
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y include/checkmate/base.h)}
export SOURCE_DATE_EPOCH
# Its temporary files lie where they are cleaned up, however it ends.
waited setsid env TMPDIR="$work" "$tools/bin/python" -m build --wheel --no-isolation --outdir "$work/plain" python >"$work/log" 2>&1 ||
    { tail -n 40 "$work/log" >&2; fail "the build fails, see above"; }

# The reference BLAS and LAPACK: others that may be installed in their place are large and meant for one processor.
libraries=/usr/lib/x86_64-linux-gnu
PATH=$tools/bin:$PATH LD_LIBRARY_PATH=$libraries/lapack:$libraries/blas \
    "$tools/bin/auditwheel" repair --wheel-dir "$work/repaired" "$work"/plain/*.whl >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; fail "auditwheel refuses the wheel, see above"; }
"$tools/bin/python" -m wheel unpack --dest "$work/tree" "$work"/repaired/*.whl >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
"$tools/bin/python" scripts/wheel_licences.py "$work"/tree/*
chmod -R u=rwX,go=rX "$work"/tree
mkdir "$work/packed"
"$tools/bin/python" -m wheel pack --dest-dir "$work/packed" "$work"/tree/* >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }

wheel=$(echo "$work"/packed/*.whl)
case $wheel in
*-py3-none-manylinux_2_*_x86_64.whl) ;;
*) fail "unexpected name: $(basename "$wheel")" ;;
esac
bytes=$(wc -c <"$wheel")
[ "$bytes" -le "$max_bytes" ] || fail "$(basename "$wheel") has $bytes bytes, more than $max_bytes"
# What carries the right name is complete.
part=$out/$(basename "$wheel").part
cp "$wheel" "$part" || { rm -f "$part"; fail "$out cannot take the wheel"; }
mv "$part" "${part%.part}"
echo "$out/$(basename "$wheel"): $bytes bytes, $(find "$work"/tree/*/checkmate.libs -type f | wc -l) libraries inside"
