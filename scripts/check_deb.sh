#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of `make deb` into a fresh Debian system and uses them there: the program plans and trains, its manual
# pages and completions are in place, the examples are compiled against libcheckmate-dev with pkg-config and run, and the
# packages can be removed again. Needs root. Usage: scripts/check_deb.sh [FOLDER [SUITE]]      (default: packages, for this machine's)
# The suite has to be the one that the packages were made in. Exit status 77: not possible here, or the network lacks
# what apt should install there.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-packages}

PATH=$PATH:/usr/sbin:/sbin
export PATH
. scripts/bare.sh
. scripts/network.sh
suite=${2:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
bare_possible "$suite" || { echo "check_deb.sh: $bare_reason" >&2; exit 77; }
for package in libcheckmate0 libcheckmate-dev checkmate; do
    set -- "$folder/${package}_"*.deb
    [ $# -eq 1 ] && [ -e "$1" ] || { echo "check_deb.sh: $folder does not hold one $package package: make deb" >&2; exit 1; }
done

work=$(mktemp -d)
system=$work/system
# One file system: do not delete what is mounted inside.
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' HUP INT TERM
step() { echo "== $*"; }
fail() {
    echo "check_deb.sh: $*" >&2
    exit 1
}
inside() { bare_inside "$system" "$@"; }
quietly() { "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; fail "failed: $*"; }; }
# fetching COMMAND...: the same, of what needs the network.
fetching() {
    "$@" >"$work/log" 2>&1 && return 0
    tail -n 40 "$work/log" >&2
    ! network_lacks "$work/log" || { echo "check_deb.sh: not tried: the network lacks something: $lacking" >&2; exit 77; }
    fail "failed: $*"
}

step "a fresh $suite"
fetching bare_system "$suite" "$system"
mkdir "$system/packages"
cp "$folder"/*.deb "$system/packages/"
fetching inside apt-get update -qq
install() { fetching inside apt-get install -y -qq --no-install-recommends "$@"; }

step "the program: installed, plans, trains"
install $(cd "$system" && ls packages/libcheckmate0_*.deb packages/checkmate_*.deb | sed 's,^,/,')
[ ! -e "$system/usr/include/checkmate" ] || fail "the program brings headers"
version=$(sed -n 's/^#define CKM_VERSION_STRING "\(.*\)"/\1/p' include/checkmate/base.h)
[ "$(inside checkmate --version)" = "checkmate $version" ] || fail "the program is not $version: $(inside checkmate --version)"
inside ldd /usr/bin/checkmate | grep -q '/libcheckmate\.so\.' || fail "the program does not use libcheckmate0"
inside checkmate solve ResNet50 --batch 32 --budget 60% --time-limit 10 -o /tmp/schedule.json --json |
    grep -q '"status": "\(optimal\|feasible\)"' || fail "the program does not plan"
inside checkmate train MobileNet --data synthetic --input-shape 64,64,3 --batch 32 --budget 80% --steps 3 --time-limit 5 \
    --export /tmp/trained.safetensors >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "the program does not train"; }
[ -s "$system/tmp/trained.safetensors" ] || fail "training has written nothing"
for command in $(inside checkmate help | sed -n '/^Commands/,/^$/s/^  \([a-z-]*\) .*/\1/p'); do
    [ -e "$system/usr/share/man/man1/checkmate-$command.1.gz" ] || fail "no manual page for $command"
done
for file in zsh/vendor-completions/_checkmate fish/vendor_completions.d/checkmate.fish; do
    [ -e "$system/usr/share/$file" ] || fail "there is no /usr/share/$file"
done
inside bash -c '. /usr/share/bash-completion/completions/checkmate && complete -p checkmate' >"$work/log" ||
    fail "bash does not read the completion"

step "the library: the examples, compiled with pkg-config, run"
install gcc libc6-dev pkg-config $(cd "$system" && ls packages/libcheckmate-dev_*.deb | sed 's,^,/,')
[ "$(inside pkg-config --modversion checkmate)" = "$version" ] || fail "pkg-config does not say $version"
for source in "$system"/usr/share/doc/libcheckmate-dev/examples/*.c; do
    name=$(basename "$source" .c)
    quietly inside sh -c "gcc -std=c17 -D_POSIX_C_SOURCE=200809L -o /tmp/$name /usr/share/doc/libcheckmate-dev/examples/$name.c \
        \$(pkg-config --cflags --libs checkmate) -lm"
    inside ldd "/tmp/$name" | grep -q '/libcheckmate\.so\.' || fail "$name does not use libcheckmate0"
    quietly inside sh -c "cd /tmp && ./$name"
    echo "$name runs"
done

step "removed again"
quietly inside apt-get purge -y -qq libcheckmate0 libcheckmate-dev checkmate
left=$(find "$system/usr" "$system/etc" "$system/var/lib" -name '*checkmate*' ! -path '*/apt/*')
[ -z "$left" ] || fail "left behind: $left"
echo "the packages work on a fresh $suite"
