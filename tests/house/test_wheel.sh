#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What makes and checks the wheel says in one line what is missing, and no library gets into a wheel without its licence. That
# the wheel itself works, scripts/check_wheel.sh finds out; it needs the network, and continuous integration runs it.
set -eu
cd "$CKM_SOURCE_DIR"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Settings of this machine say where packages are.
export PIP_CONFIG_FILE=/dev/null PIP_NO_INDEX=1 CKM_WHEEL_TOOLS="$scratch/tools"
unset PIP_FIND_LINKS PIP_INDEX_URL PIP_EXTRA_INDEX_URL

# expect STATUS TEXT COMMAND...: it fails so, and says this in one line on standard error.
expect() {
    status=$1 text=$2
    shift 2
    got=0
    "$@" >"$scratch/out" 2>"$scratch/err" || got=$?
    if [ "$got" -ne "$status" ] || [ "$(wc -l <"$scratch/err")" -ne 1 ] || ! grep -q "$text" "$scratch/err"; then
        echo "'$*' ends with $got and says:"
        cat "$scratch/out" "$scratch/err"
        echo "expected: $status and one line with '$text'"
        exit 1
    fi
}
for script in wheel sdist; do
    expect 77 "^$script.sh: /no/python cannot make a virtual environment; .*python3-venv" \
        env CKM_PYTHON=/no/python sh scripts/$script.sh "$scratch/dist"
done
expect 77 '^wheel.sh: /proc/none/tools cannot be written to, .*CKM_WHEEL_TOOLS names another' \
    env CKM_WHEEL_TOOLS=/proc/none/tools sh scripts/wheel.sh "$scratch/dist"
expect 1 '^deb.sh: /proc/none/packages cannot be written to$' sh scripts/deb.sh /proc/none/packages
if /usr/bin/python3 -c 'import ensurepip' 2>/dev/null; then
    expect 77 '^sdist.sh: pip cannot install the tools, .*auditwheel==.*is PyPI within reach?' sh scripts/sdist.sh "$scratch/dist"
fi
expect 2 '^usage: check_wheel.sh WHEEL' sh scripts/check_wheel.sh "$scratch/none.whl"
[ ! -e "$scratch/dist" ] || { echo "something was made all the same"; exit 1; }

# Licences: of a library that Debian has not, of a package that is not in the table, of one that is.
command -v dpkg-query >/dev/null || { echo "the rest needs Debian's dpkg-query"; exit 77; }
mkdir -p "$scratch/wheel/checkmate.libs" "$scratch/wheel/checkmate-1.dist-info"
printf 'Metadata-Version: 2.4\nLicense-Expression: Apache-2.0\nName: checkmate\n\nText\n' >"$scratch/wheel/checkmate-1.dist-info/METADATA"
touch "$scratch/wheel/checkmate.libs/libnobody-0a1b2c3d.so.7"
expect 1 'libnobody.so.7 is of no Debian package' python3 scripts/wheel_licences.py "$scratch/wheel"
rm "$scratch"/wheel/checkmate.libs/*
system=$(basename "$(readlink -f "$(gcc -print-file-name=libc.so.6)")")
touch "$scratch/wheel/checkmate.libs/$system"
expect 1 'is of libc6, whose licence is not in the table' python3 scripts/wheel_licences.py "$scratch/wheel"
rm "$scratch"/wheel/checkmate.libs/*
engine=$(basename "$(readlink -f "$(gcc -print-file-name=libClp.so)")")
touch "$scratch/wheel/checkmate.libs/$(echo "$engine" | sed 's/\.so/-0a1b2c3d.so/')"
python3 scripts/wheel_licences.py "$scratch/wheel"
grep -q '^License-Expression: Apache-2.0 AND EPL-1.0 AND MIT$' "$scratch/wheel/checkmate-1.dist-info/METADATA"
grep -q '^License-File: coinor-libclp1.txt$' "$scratch/wheel/checkmate-1.dist-info/METADATA"
grep -q 'Eclipse Public License' "$scratch/wheel/checkmate-1.dist-info/licenses/coinor-libclp1.txt"
grep -q '^libClp-0a1b2c3d.* coinor-libclp1 .* EPL-1.0$' "$scratch/wheel/checkmate-1.dist-info/licenses/BUNDLED.txt"
tail -n 1 "$scratch/wheel/checkmate-1.dist-info/METADATA" | grep -q '^Text$'
echo "missing tools are named, and so are licences"
