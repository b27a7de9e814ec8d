#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs a wheel where none of the Debian packages are that checkmate is built from, and uses it (scripts/check_wheel.py).
# As root: in a bare Debian 12 with Python and nothing else, made by debootstrap from the mirror that this machine's apt has.
# Else: in a virtual environment, which may see this machine's libraries; the check then finds out whether any is used.
# Usage: scripts/check_wheel.sh WHEEL
#   CKM_PYTHON=python3       the Python of the virtual environment
#   CKM_CHROOT=FOLDER        a bare system to use again; made there if it is not there, and kept
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -ne 1 ] || [ ! -f "$1" ]; then
    echo "usage: check_wheel.sh WHEEL; 'make wheel' makes one in dist/" >&2
    exit 2
fi
fail() {
    echo "check_wheel.sh: $*" >&2
    exit 1
}
suite=bookworm
work=$(mktemp -d)
# One file system: whatever is mounted inside is not ours to delete.
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' HUP INT TERM

# bare_system FOLDER: a Debian with Python and venv, from the first mirror of this suite in apt's configuration.
bare_system() {
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' "Release: $suite" | head -n 1)
    [ -n "$mirror" ] || { echo "NOTE: apt on this machine has no mirror of Debian's $suite"; return 1; }
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    echo "making a bare $suite with Python (debootstrap)"
    http_proxy=${proxy:-${http_proxy:-}} debootstrap --variant=minbase --include=python3,python3-venv "$suite" "$1" "$mirror" \
        >"$work/log" 2>&1 || { tail -n 20 "$work/log"; echo "NOTE: debootstrap fails, see above"; return 1; }
}

PATH=$PATH:/usr/sbin:/sbin
export PATH
# What the checking machine has set is not there on a user's.
unset LD_LIBRARY_PATH PYTHONPATH PYTHONHOME CHECKMATE_LIBRARY CHECKMATE_PROGRAM PIP_FIND_LINKS PIP_REQUIRE_VIRTUALENV
root=${CKM_CHROOT:-$work/root}
if [ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null && unshare --mount --net true 2>/dev/null &&
    { [ -x "$root/usr/bin/python3" ] || bare_system "$root"; }; then
    engines=$(chroot "$root" dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' | sed -n 's/^ii *//p' |
        grep -E '^(coinor-|libjansson|libprotobuf|liblapack|libblas|libgfortran|libdnnl)') || true
    [ -z "$engines" ] || fail "$root is not bare, it has $(echo $engines)"
    rm -rf "$root/check"
    mkdir -p "$root/check"
    cp "$1" "$here/check_wheel.py" "$root/check/"
    # With /proc, as every system has it, and without any network.
    unshare --mount --net sh -euc 'mount -t proc proc "$1/proc"; exec chroot "$@"' sh "$root" \
        env -i PATH=/usr/bin:/bin HOME=/check LC_ALL=C.UTF-8 sh -euc '
        python3 -m venv /check/venv
        /check/venv/bin/pip install -q --no-index --disable-pip-version-check /check/*.whl
        cd /check && exec /check/venv/bin/python check_wheel.py'
    where="a bare Debian $(cat "$root/etc/debian_version"), $(chroot "$root" dpkg-query -W | wc -l) packages"
else
    echo "NOTE: not root, no debootstrap, no mirror, or no rights to mount: the wheel is tried in a virtual environment of this machine, not on a bare system"
    "${CKM_PYTHON:-python3}" -m venv "$work/venv"
    "$work/venv/bin/pip" install -q --no-index --disable-pip-version-check "$1"
    cp "$here/check_wheel.py" "$work/"
    (cd "$work" && PATH=/usr/bin:/bin "$work/venv/bin/python" check_wheel.py)
    where="a virtual environment of this machine"
fi
echo "$(basename "$1") works in $where"
