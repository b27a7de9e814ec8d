#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tarball of `make dist` is the last commit, is the same when made again, and builds on its own: `checkmate` runs.
set -eu
if [ -n "${CKM_INSTRUMENTED:-}" ]; then
    echo "skipped: a build with sanitizers or coverage is not what a tarball is for"
    exit 77
fi
cd "$CKM_SOURCE_DIR"
git rev-parse --verify -q HEAD >/dev/null 2>&1 || { echo "skipped: this is not a git checkout"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tarball=$(sh scripts/dist.sh "$scratch/first" 2>/dev/null)
cmp "$tarball" "$(sh scripts/dist.sh "$scratch/second" 2>/dev/null)" || { echo "two tarballs of one commit differ"; exit 1; }
version=$(sed -n 's/^#define CKM_VERSION_STRING "\(.*\)"/\1/p' include/checkmate/base.h)
[ "$(basename "$tarball")" = "checkmate-$version.tar.gz" ] || { echo "the tarball is called $tarball"; exit 1; }
tar xzf "$tarball" -C "$scratch"
tree="$scratch/checkmate-$version"
git ls-tree -r --name-only HEAD | LC_ALL=C sort >"$scratch/committed"
(cd "$tree" && find . ! -type d | sed 's,^\./,,' | LC_ALL=C sort) >"$scratch/packed"
cmp "$scratch/committed" "$scratch/packed" || { diff "$scratch/committed" "$scratch/packed" || true; exit 1; }

# In a checkout of another user, git's reason is what is said.
if [ "$(id -u)" -eq 0 ] && git clone -q . "$scratch/theirs" 2>/dev/null; then
    cp scripts/dist.sh "$scratch/theirs/scripts/"
    chown -R 65534 "$scratch/theirs"
    said=$(GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null sh "$scratch/theirs/scripts/dist.sh" "$scratch/third" 2>&1) &&
        { echo "another user's checkout is packed, which git does not allow"; exit 1; }
    case $said in *"another user owns"*safe.directory*) ;; *) echo "of another user's checkout it is said: $said"; exit 1 ;; esac
fi

# Without optimization, which takes half of the time.
cd "$tree"
{ cmake -S . -B build -DCMAKE_BUILD_TYPE=Debug -DCKM_BUILD_TESTS=OFF "-DCMAKE_C_COMPILER=${CKM_CC:-cc}" &&
    cmake --build build --target checkmate_program --parallel "$(nproc)"; } >"$scratch/log" 2>&1 || { tail -n 40 "$scratch/log"; exit 1; }
[ "$(build/checkmate --version)" = "checkmate $version" ] || { echo "the program says $(build/checkmate --version)"; exit 1; }
build/checkmate solve MobileNet --batch 8 --budget 70% --time-limit 5 --json | grep -q '"status": "\(optimal\|feasible\)"' ||
    { echo "the program of the tarball does not solve"; exit 1; }
echo "$(basename "$tarball") builds, $(du -k "$tarball" | cut -f 1) kB"
