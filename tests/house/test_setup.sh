# SPDX-License-Identifier: Apache-2.0
# The set-up waits while another package manager is at work, installs through sudo for a plain user, and gives up with
# what was wrong. apt-get, sudo and id are stand-ins; nothing is installed.
set -eu
setup=$CKM_SOURCE_DIR/scripts/setup.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
fail() {
    echo "FAIL: $*"
    failed=1
}

# A machine without gnuplot and dot: only what the script itself calls, and the stand-ins.
mkdir "$scratch/bin"
for tool in sh cat cp date dirname env grep mktemp rm sed sleep sort tail touch tr uname chmod; do
    ln -s "$(command -v $tool)" "$scratch/bin/$tool"
done
cat >"$scratch/bin/apt-get" <<'END'
#!/bin/sh
# Fails as apt does while $STATE/locked counts down, or with the text in $STATE/broken; else installs what was asked for.
echo "$(id -u) ${THROUGH_SUDO:-direct} $*" >>"$STATE/calls"
case " $* " in
*" -s "*) [ ! -e "$STATE/no_lists" ] && exit 0 || exit 100 ;;
esac
if [ -e "$STATE/broken" ]; then
    cat "$STATE/broken" >&2
    exit 100
fi
left=$(cat "$STATE/locked")
if [ "$left" -gt 0 ]; then
    echo $((left - 1)) >"$STATE/locked"
    case " $* " in
    *" update "*) echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)" >&2 ;;
    *) echo "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?" >&2 ;;
    esac
    exit 100
fi
case " $* " in
*" update "*) rm -f "$STATE/no_lists" ;;
*" install "*) cp "$STATE/tool" "$STATE/bin/gnuplot" && cp "$STATE/tool" "$STATE/bin/dot" ;;
esac
END
cat >"$scratch/bin/sudo" <<'END'
#!/bin/sh
THROUGH_SUDO=sudo exec env THROUGH_SUDO=sudo "$@"
END
cat >"$scratch/bin/id" <<'END'
#!/bin/sh
cat "$STATE/uid"
END
printf '#!/bin/sh\n' >"$scratch/tool"
chmod +x "$scratch/bin/apt-get" "$scratch/bin/sudo" "$scratch/bin/id" "$scratch/tool"

# try STATUS UID LOCKED [WAIT]: runs the set-up as this user while the lock is held for LOCKED attempts.
try() {
    rm -f "$scratch/bin/gnuplot" "$scratch/bin/dot" "$scratch/calls"
    echo "$2" >"$scratch/uid"
    echo "$3" >"$scratch/locked"
    got=0
    STATE=$scratch CKM_SETUP_WAIT=${4:-60} PATH=$scratch/bin CKM_NO_SETUP= sh "$setup" demo >"$scratch/out" 2>&1 || got=$?
    [ "$got" -eq "$1" ] || fail "as user $2, locked $3 times: status $got, expected $1: $(cat "$scratch/out")"
}
said() {
    grep -q "$1" "$scratch/out" || fail "lacks '$1': $(cat "$scratch/out")"
}
calls() {
    got=$(grep -c "$1" "$scratch/calls" || true)
    [ "$got" -eq "$2" ] || fail "$got calls with '$1', expected $2: $(cat "$scratch/calls")"
}

# Nothing holds the lock.
try 0 0 0
calls ' install ' 2
calls 'Lock::Timeout' 1
grep -q 'at work' "$scratch/out" && fail "waits without a lock"

# It is held for a while: said once, tried again.
try 0 0 3
said 'another package manager is at work; waiting for it, 60 s at most'
[ "$(grep -c 'at work' "$scratch/out")" -eq 1 ] || fail "said more than once"
calls 'Lock::Timeout' 4

# The same for the lock of the package lists.
touch "$scratch/no_lists"
try 0 0 2
said 'another package manager is at work'
calls ' update ' 3

# It is never given up: an error that says so, and no second wait.
try 1 0 1000 2
said 'another package manager is still at work after 2 s'
said 'Unable to acquire the dpkg frontend lock'
calls ' update ' 0

# A plain user: through sudo, with the lock held too.
try 0 1000 2
calls '^1000 sudo .*Lock::Timeout' 3
calls '^1000 direct .* install ' 0
try 0 1000 0
rm "$scratch/bin/sudo"
try 1 1000 0
said 'installing needs root or sudo'
said 'apt-get install --no-install-recommends gnuplot-nox graphviz'

# Another failure is no reason to wait.
echo 'E: Unable to locate package gnuplot-nox' >"$scratch/broken"
try 1 0 0
said 'Unable to locate package gnuplot-nox'
grep -q 'at work' "$scratch/out" && fail "waits although nothing holds the lock"

# Clang is named as this system has it: 14 where apt has one, else what apt has for clang.
cat >"$scratch/bin/apt-cache" <<'END'
#!/bin/sh
case $1 in
search) grep -e "$3" "$STATE/suite" ;;
depends) printf 'clang\n  Depends: %s\n' "$(tail -n 1 "$STATE/suite")" ;;
esac
END
chmod +x "$scratch/bin/apt-cache"
# names VERSION...: what the set-up asks for where apt has these versions, the last for clang.
names() {
    printf 'clang-%s\n' "$@" >"$scratch/suite"
    STATE=$scratch PATH=$scratch/bin CKM_NO_SETUP=1 sh "$setup" ci >"$scratch/out" 2>&1 || return 0
    fail "nothing is missing"
}
names 13 14
said ' clang-14 .*clang-format-14 clang-tidy-14 .*libclang-rt-14-dev llvm-14'
names 17 19
said ' clang-19 .*clang-tidy-19 .*libclang-rt-19-dev llvm-19'
! grep -q -e '-14' "$scratch/out" || fail "names what this system has not: $(cat "$scratch/out")"

# What is there and too old is said to be so, with what is needed: the package is there already, and does not help.
cat >"$scratch/bin/cmake" <<'END'
#!/bin/sh
echo "cmake version $(cat "$STATE/cmake_version")"
END
chmod +x "$scratch/bin/cmake"
# build_says VERSION: what the set-up says of a build where CMake has this version.
build_says() {
    echo "$1" >"$scratch/cmake_version"
    STATE=$scratch PATH=$scratch/bin CKM_NO_SETUP=1 sh "$setup" build >"$scratch/out" 2>&1 || return 0
    fail "nothing is missing"
}
build_says 3.18.4
said ' cmake '
said "^setup.sh: $scratch/bin/cmake is 3.18, and 3.25 or newer is needed; .*pip install cmake"
for version in 3.25.1 3.31.6 4.2.0; do
    build_says $version
    ! grep -q ' cmake \|or newer is needed' "$scratch/out" || fail "CMake $version is too old: $(cat "$scratch/out")"
done

# The same of oneDNN, whose package is of the suite's age.
mkdir -p "$scratch/headers/oneapi/dnnl"
touch "$scratch/headers/oneapi/dnnl/dnnl.h"
export CKM_SETUP_HEADERS="$scratch/headers"
for version in 2.5 1.9 2.6 3.7 3.12; do
    printf '#define DNNL_VERSION_MAJOR %s\n\n/// Minor version.\n#define DNNL_VERSION_MINOR %s\n#define DNNL_VERSION_PATCH 3\n' ${version%.*} ${version#*.} \
        >"$scratch/headers/oneapi/dnnl/dnnl_version.h"
    build_says 4.2.0
    case $version in
    2.5 | 1.9)
        said ' libdnnl-dev '
        said "^setup.sh: oneDNN in $scratch/headers is $version, and 2.6 or newer is needed, .* libdnnl-dev has from Debian 12 on"
        ;;
    *) ! grep -q 'libdnnl-dev\|oneDNN' "$scratch/out" || fail "oneDNN $version is too old: $(cat "$scratch/out")" ;;
    esac
done
unset CKM_SETUP_HEADERS

# A dot without the layout that keeps places, which is a package of its own: shows once dot is there, and is installed then.
cat >"$scratch/tool" <<'END'
#!/bin/sh
case " $* " in
*" -Kneato "*) [ -e "$STATE/has_neato" ] ;;
esac
END
sed -i 's/^\*" install "\*).*/*neato-layout*) touch "$STATE\/has_neato" ;;\n&/' "$scratch/bin/apt-get"
echo libgvplugin-neato-layout9 >"$scratch/suite"
rm -f "$scratch/broken"
try 0 0 0
calls 'Lock::Timeout.* install .*graphviz' 1
calls 'Lock::Timeout.* install .*libgvplugin-neato-layout9$' 1
exit $failed
