# SPDX-License-Identifier: Apache-2.0
# Bare Debian systems by debootstrap, for the scripts that try something where nothing is installed. Sourced, not run.
# Needs PATH to have /usr/sbin.

# bare_possible SUITE: whether this machine can make one; else $bare_reason says why not. Sets $bare_mirror.
bare_possible() {
    bare_reason=""
    bare_mirror=""
    if [ "$(id -u)" -ne 0 ]; then
        bare_reason="a fresh system needs root"
    elif ! unshare --mount --pid --net --fork true 2>/dev/null; then
        bare_reason="root may not mount here, as in a container: a fresh system needs that"
    elif ! command -v debootstrap >/dev/null; then
        bare_reason="debootstrap is missing: scripts/setup.sh package installs it"
    elif [ ! -e "/usr/share/debootstrap/scripts/$1" ]; then
        bare_reason="debootstrap here does not know a suite $1"
    else
        # The first source that has this suite, as apt itself lists its sources; else the one that this system comes from: a mirror
        # has all suites.
        bare_mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(CREATED_BY)' |
            awk -v suite="$1" -v own="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" '
                $3 != "Packages" { next }
                $2 == suite { print $1; found = 1; exit }
                $2 == own && mirror == "" { mirror = $1 }
                END { if (!found && mirror != "") print mirror }')
        [ -n "$bare_mirror" ] || bare_reason="apt has no lists of $1, nor of this system: apt-get update"
    fi
    [ -z "$bare_reason" ]
}

# bare_apart OPTION... COMMAND...: with mounts and processes in separate namespaces, so that all of them are gone when it
# returns, or when the shell that runs it is killed, which behind "&" is a subshell.
bare_apart() {
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child "$@"
}

# bare_system SUITE FOLDER [PACKAGE,...]: makes one, after bare_possible. The mirror is reached as from here: through the
# same proxy, under the same name. No service starts in there.
bare_system() {
    proxy=""
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    http_proxy=${proxy:-${http_proxy:-}} bare_apart --mount-proc debootstrap --variant=minbase ${3:+--include="$3"} "$1" "$2" "$bare_mirror" || return 1
    apt-config dump Acquire >"$2/etc/apt/apt.conf.d/90host"
    cp /etc/hosts "$2/etc/hosts"
    echo force-unsafe-io >"$2/etc/dpkg/dpkg.cfg.d/fast"
    printf '#!/bin/sh\nexit 101\n' >"$2/usr/sbin/policy-rc.d"
    chmod +x "$2/usr/sbin/policy-rc.d"
}

# bare_inside FOLDER COMMAND...: runs it in there, as root, with an empty environment, in separate namespaces.
#   BARE_OPTIONS=--net         further options for unshare; this one: without any network
#   BARE_BIND=SOURCE:TARGET    a folder of this machine to mount there, read only
bare_inside() {
    bare_root=$1
    shift
    # shellcheck disable=SC2086 # the options are words
    bare_apart ${BARE_OPTIONS:-} sh -euc '
        root=$1 bind=$2
        shift 2
        mount -t proc proc "$root/proc"
        [ -d "$root/dev/shm" ] || mkdir "$root/dev/shm"
        mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
        [ -d "$root/dev/pts" ] || mkdir "$root/dev/pts"
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
        if [ -n "$bind" ]; then
            mount --bind "${bind%%:*}" "$root${bind#*:}"
            mount -o remount,ro,bind "$root${bind#*:}"
        fi
        # Not as the first process of the namespace: timeout of coreutils 9.10 runs nothing there.
        status=0
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$root" "$@" || status=$?
        exit "$status"' \
        sh "$bare_root" "${BARE_BIND:-}" "$@"
}
