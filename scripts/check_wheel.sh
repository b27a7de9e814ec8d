#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs a wheel where none of the Debian packages are that checkmate is built from, and uses it (scripts/check_wheel.py).
# As root: in a bare Debian with Python and nothing else, made by debootstrap from the mirror that this machine's apt has, of each
# suite that is named.
# Else: in a virtual environment, which may see this machine's libraries; the check then finds out whether any is used.
# Usage: scripts/check_wheel.sh WHEEL [SUITE...]      (default: bookworm)
#   CKM_PYTHON=python3       the Python of the virtual environment
#   CKM_CHROOT=FOLDER        a bare system to use again; made there if it is not there, and kept. One that is there may be another
#                            release, or Ubuntu, if it has Python and venv
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -eq 0 ] || [ ! -f "$1" ]; then
    echo "usage: check_wheel.sh WHEEL [SUITE...]; 'make wheel' makes one in dist/" >&2
    exit 2
fi
wheel=$1
shift
[ $# -gt 0 ] || set -- bookworm
fail() {
    echo "check_wheel.sh: $*" >&2
    exit 1
}
work=$(mktemp -d)
# One file system: do not delete what is mounted inside.
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' HUP INT TERM

PATH=$PATH:/usr/sbin:/sbin
export PATH
. "$here/bare.sh"
# made_bare: a Debian with Python and venv is in $root, or why not.
made_bare() {
    bare_possible "$suite" || { echo "NOTE: $bare_reason"; return 1; }
    [ ! -x "$root/usr/bin/python3" ] || return 0
    echo "making a bare $suite with Python (debootstrap)"
    bare_system "$suite" "$root" python3,python3-venv >"$work/log" 2>&1 || { tail -n 20 "$work/log"; echo "NOTE: debootstrap fails, see above"; return 1; }
}
# What the checking machine has set is not there on a user's.
unset LD_LIBRARY_PATH PYTHONPATH PYTHONHOME CHECKMATE_LIBRARY CHECKMATE_PROGRAM PIP_FIND_LINKS PIP_REQUIRE_VIRTUALENV

# in_bare: installs the wheel there and uses it.
in_bare() {
    engines=$(chroot "$root" dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' | sed -n 's/^ii *//p' |
        grep -E '^(coinor-|libjansson|libprotobuf|liblapack|libblas|libgfortran|libdnnl)') || true
    [ -z "$engines" ] || fail "$root is not bare, it has $(echo $engines)"
    rm -rf "$root/check"
    mkdir -p "$root/check"
    cp "$wheel" "$here/check_wheel.py" "$root/check/"
    # Without any network.
    BARE_OPTIONS=--net bare_inside "$root" env HOME=/check sh -euc '
        python3 -m venv /check/venv
        /check/venv/bin/pip install -q --no-index --disable-pip-version-check /check/*.whl
        cd /check && exec /check/venv/bin/python check_wheel.py' || fail "$(basename "$wheel") does not work in $(name)"
    echo "$(basename "$wheel") works in $(name)"
}
name() {
    system=$(. "$root/etc/os-release" && echo "$PRETTY_NAME")
    echo "a bare $system, $(chroot "$root" getconf GNU_LIBC_VERSION), $(chroot "$root" python3 --version)," \
        "$(chroot "$root" dpkg-query -W | wc -l) packages"
}
[ -z "${CKM_CHROOT:-}" ] || [ $# -eq 1 ] || fail "CKM_CHROOT is one system, and these are $#: $*"
bare=""
for suite in "$@"; do
    root=${CKM_CHROOT:-$work/root}
    if made_bare; then
        in_bare
        bare=1
    fi
    rm -rf --one-file-system "$work/root"
done
if [ -z "$bare" ]; then
    echo "NOTE: the wheel is tried in a virtual environment of this machine, not on a bare system"
    "${CKM_PYTHON:-python3}" -m venv "$work/venv"
    "$work/venv/bin/pip" install -q --no-index --disable-pip-version-check "$wheel"
    cp "$here/check_wheel.py" "$work/"
    (cd "$work" && PATH=/usr/bin:/bin "$work/venv/bin/python" check_wheel.py)
    echo "$(basename "$wheel") works in a virtual environment of this machine"
fi
