#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are still missing, and nothing else. Silent when nothing is missing.
# Usage: scripts/setup.sh [build] [test] [demo] [wheel] [ci] [package] [mpi]      (default: build test demo)
# What is needed is looked for as such (a command, a header), so a tool installed by other means counts.
# CKM_NO_SETUP=1: never install, only say what is missing.
# CKM_SETUP_WAIT=S: seconds to wait while another package manager is at work (default: 600).
# CKM_SETUP_HEADERS="FOLDER...": where headers are looked for (default: the system's and /usr/local/include).
set -eu

missing=""

have_command() { command -v "$1" >/dev/null 2>&1; }
have_header() {
    for folder in ${CKM_SETUP_HEADERS:-/usr/include /usr/local/include "/usr/include/$(uname -m)-linux-gnu"}; do
        [ -e "$folder/$1" ] && return 0
    done
    return 1
}
have_package() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }
have_module() { have_command pkg-config && pkg-config --exists "$1"; }

# need PACKAGE CHECK...: notes the package when the check fails.
need() {
    package=$1
    shift
    "$@" || missing="$missing $package"
}

# CMake 3.25 or newer. One that is older is noted: a package that is there already does not help then.
have_cmake() {
    have_command cmake || return 1
    version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    [ "${version% *}" -gt 3 ] || { [ "${version% *}" -eq 3 ] && [ "${version#* }" -ge 25 ]; } ||
        note_old "$(command -v cmake) is $(echo "$version" | tr ' ' .), and 3.25 or newer is needed; where the package cmake is older too, pip install cmake has one"
}

# oneDNN 2.6 or newer, as cmake/CheckmateDependencies.cmake asks for.
have_onednn() {
    have_header oneapi/dnnl/dnnl.h || return 1
    version=$(sed -n 's/^#define DNNL_VERSION_\(MAJOR\|MINOR\) *\([0-9]*\).*/\2/p' "$folder/oneapi/dnnl/dnnl_version.h" 2>/dev/null | tr '\n' ' ')
    version=${version% }
    [ -z "$version" ] || [ "${version% *}" -gt 2 ] || { [ "${version% *}" -eq 2 ] && [ "${version#* }" -ge 6 ]; } ||
        note_old "oneDNN in $folder is $(echo "$version" | tr ' ' .), and 2.6 or newer is needed, which the package libdnnl-dev has from Debian 12 on;\
 -DCKM_RUN=OFF plans without it"
}

# note_old TEXT: something is there and too old; fails.
too_old=""
note_old() {
    too_old="$too_old
setup.sh: $1"
    return 1
}

# The layout that keeps given places is part of graphviz up to Debian 13, and a separate package after that. Without dot it is not
# known: then graphviz comes first.
dot_keeps_places() { ! have_command dot || echo 'graph { a [pos="0,0"] }' | dot -Kneato -n2 -Tsvg >/dev/null 2>&1; }
neato_package() {
    name=$(apt-cache search --names-only '^libgvplugin-neato-layout[0-9]*$' 2>/dev/null | sed -n '1{s/ .*//;p;}')
    echo "${name:-libgvplugin-neato-layout8}"
}

# Debian's Python: others see other packages.
python3_has() { /usr/bin/python3 -c "import $1" >/dev/null 2>&1; }

# AddressSanitizer's runtime for clang, which is a separate package.
have_clang_runtime() {
    have_command "clang-$clang" || return 1
    # A file that clang does not find is printed as it was asked for.
    [ -e "$("clang-$clang" -print-file-name=libclang_rt.asan-"$(uname -m)".a)" ]
}

need_build() {
    need gcc have_command gcc
    need g++ have_command g++
    need libc6-dev have_header stdio.h
    need make have_command make
    need cmake have_cmake
    need pkg-config have_command pkg-config
    need libjansson-dev have_module jansson
    need libprotobuf-c-dev have_module libprotobuf-c
    need libpng-dev have_module libpng
    need libjpeg62-turbo-dev have_module libjpeg
    need protobuf-c-compiler have_command protoc-c
    need coinor-libcbc-dev have_module cbc
    need coinor-libclp-dev have_module clp
    need libdnnl-dev have_onednn
    # Packed into the page that `checkmate report` writes.
    need libjs-dygraphs test -e /usr/share/javascript/dygraphs/dygraph.min.js
}

need_test() {
    need libcmocka-dev have_module cmocka
    # For looking at the manual pages.
    need mandoc have_command mandoc
    # For looking at the page that `checkmate report` writes.
    need chromium have_command chromium
    need chromium-driver have_command chromedriver
    need python3-selenium python3_has selenium
    need python3-pil python3_has PIL
    # For the tests of the Python package.
    need python3-pytest python3_has pytest
    need_demo
}

need_demo() {
    need gnuplot-nox have_command gnuplot
    need graphviz have_command dot
    need "$(neato_package)" dot_keeps_places
}

need_wheel() {
    need python3-venv python3_has ensurepip
}

need_ci() {
    # The version that this system has.
    . "$(dirname "$0")/clang.sh"
    need "clang-$clang" have_command "clang-$clang"
    need "libclang-rt-$clang-dev" have_clang_runtime
    # llvm-profdata and llvm-cov, for the coverage of fuzzing.
    need "llvm-$clang" have_command "llvm-cov-$clang"
    # Other versions format differently; scripts/format.sh says where else there is a 14.
    [ "$clang" != 14 ] || need clang-format-14 have_command clang-format-14
    need "clang-tidy-$clang" have_command "clang-tidy-$clang"
    # For trying completion.
    need ccache have_command ccache
    need zsh have_command zsh
    need fish have_command fish
    need python3-venv python3_has venv
    need python3-pip have_command pip3
    # For trying packages on a bare system.
    need debootstrap test -e /usr/sbin/debootstrap
}

# For `make deb` and its test in a fresh system.
need_package() {
    # What is packed is a commit.
    need git have_command git
    need dpkg-dev have_command dpkg-buildpackage
    # dpkg-buildpackage requires it, even if the packages themselves do not.
    need build-essential have_package build-essential
    need debhelper have_command dh
    need lintian have_command lintian
    need debootstrap test -x /usr/sbin/debootstrap
    need abigail-tools have_command abidiff
    # dpkg-buildpackage requires packages by name, even if others provide their contents.
    for package in $(sed -n '/^Build-Depends:/,/^[A-Z]/{s/^Build-Depends://;/^[A-Z]/d;s/([^)]*)//g;s/,//g;p;}' \
        "$(dirname "$0")/../debian/control.in"); do
        case $package in
        debhelper-compat) ;;  # a name that debhelper provides
        *) need "$package" have_package "$package" ;;
        esac
    done
}

# For a program that trains in several processes (-DCKM_MPI=ON).
need_mpi() {
    need libopenmpi-dev have_command mpicc
    need openmpi-bin have_command mpirun
}

collect() {
    missing=""
    too_old=""
    for set in "$@"; do
        case $set in
        build | test | demo | wheel | ci | package | mpi) "need_$set" ;;
        *)
            echo "setup.sh: unknown set \"$set\"; known: build test demo wheel ci package mpi" >&2
            exit 2
            ;;
        esac
    done
    # A package is named once, however many sets ask for it.
    missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
    missing=${missing% }
}

give_up() {
    echo "setup.sh: missing packages: $missing$too_old" >&2
    echo "setup.sh: $1; install them and run again: apt-get install --no-install-recommends $missing" >&2
    exit 1
}

[ $# -gt 0 ] || set -- build test demo
collect "$@"
[ -n "$missing" ] || exit 0

[ -z "${CKM_NO_SETUP:-}" ] || give_up "CKM_NO_SETUP is set"
have_command apt-get || give_up "this system has no apt-get, and package names here are Debian's"
if [ "$(id -u)" -eq 0 ]; then
    as_root=""
elif have_command sudo; then
    as_root="sudo"
else
    give_up "installing needs root or sudo"
fi

echo "setup.sh: installing $missing, and what they need: this takes from seconds to some minutes"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 1' HUP INT TERM

# apt_get ARGUMENT...: what apt says goes to the log, to be shown when it fails: it talks at length. Other package managers
# may be at work (a new machine updates itself, say), and are waited for; apt waits for one of the locks only, and quietly.
wait_seconds=${CKM_SETUP_WAIT:-600}
apt_get() {
    deadline=$(($(date +%s) + wait_seconds))
    said=""
    # env: sudo passes no variables on; without a terminal a package must not ask questions. Messages are looked at: LC_ALL.
    until $as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -o DPkg::Lock::Timeout=5 -o Dpkg::Use-Pty=0 \
        "$@" >"$log" 2>&1; do
        grep -Eq 'Could not get lock|Unable to (acquire|lock) ' "$log" || return 1
        [ "$(date +%s)" -lt "$deadline" ] || {
            tail -n 20 "$log" >&2
            give_up "another package manager is still at work after $wait_seconds s"
        }
        [ -n "$said" ] || echo "setup.sh: another package manager is at work; waiting for it, $wait_seconds s at most"
        said=1
        sleep 1
    done
}
install_missing() {
    # shellcheck disable=SC2086 # the packages are words
    apt_get install -y -qq --no-install-recommends $missing
}
update_lists() {
    echo "setup.sh: fetching the lists of packages"
    apt_get update -qq || { tail -n 20 "$log" >&2; give_up "apt-get update failed"; }
}
# Package lists are fetched only when the packages cannot be installed with those at hand.
install_all() {
    if ! apt-get install -s --no-install-recommends $missing >/dev/null 2>&1; then
        update_lists
        install_missing || { tail -n 20 "$log" >&2; give_up "apt-get could not install them"; }
    elif ! install_missing; then
        # Lists that are there may be too old to download from.
        update_lists
        install_missing || { tail -n 20 "$log" >&2; give_up "apt-get could not install them"; }
    fi
}
install_all
collect "$@"
# What a program lacks shows once it is there.
[ -z "$missing" ] || { echo "setup.sh: installing $missing"; install_all; collect "$@"; }
[ -z "$missing" ] || give_up "still missing after installation"
