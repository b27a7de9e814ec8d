#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes checkmate-VERSION.tar.gz: the tree of the last commit, and nothing else. Usage: scripts/dist.sh [FOLDER]
# The same commit gives the same file, byte for byte. Prints the name of the file.
set -eu
folder=$(mkdir -p "${1:-.}" && cd "${1:-.}" && pwd)
cd "$(dirname "$0")/.."

version=$(sed -n 's/^#define CKM_VERSION_STRING "\(.*\)"/\1/p' include/checkmate/base.h)
[ -n "$version" ] || { echo "dist.sh: include/checkmate/base.h has no CKM_VERSION_STRING" >&2; exit 1; }
command -v git >/dev/null || { echo "dist.sh: git is missing: scripts/setup.sh package installs it" >&2; exit 1; }
if ! said=$(LC_ALL=C git rev-parse --verify HEAD 2>&1); then
    case $said in
    *"dubious ownership"*)
        echo "dist.sh: git does not read $(pwd), which another user owns; as a user who trusts it:" \
            "git config --global --add safe.directory '$(pwd)'" >&2
        ;;
    *) echo "dist.sh: this is not a git checkout: a tarball is made from a commit" >&2 ;;
    esac
    exit 1
fi
committed=$(git show HEAD:include/checkmate/base.h | sed -n 's/^#define CKM_VERSION_STRING "\(.*\)"/\1/p')
[ "$version" = "$committed" ] ||
    { echo "dist.sh: include/checkmate/base.h says $version and the last commit $committed: commit it first" >&2; exit 1; }
[ -z "$(git status --porcelain)" ] ||
    echo "dist.sh: changes that are not committed are left out" >&2

name=checkmate-$version
# gzip -n: no time stamp. A temporary name: what carries the right one is complete.
git archive --format=tar --prefix="$name/" HEAD >"$folder/$name.tar.part"
gzip -9 -n -c "$folder/$name.tar.part" >"$folder/$name.tar.gz.part"
rm "$folder/$name.tar.part"
mv "$folder/$name.tar.gz.part" "$folder/$name.tar.gz"
echo "$folder/$name.tar.gz"
