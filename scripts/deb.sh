#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages libcheckmate0, libcheckmate-dev and checkmate from the last commit, as scripts/dist.sh packs it,
# and has lintian check them. Usage: scripts/deb.sh [FOLDER]      (default: packages)
# Who builds the packages is their maintainer: DEBFULLNAME and DEBEMAIL, or else the author of the last commit.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "${1:-packages}" 2>/dev/null && [ -w "${1:-packages}" ] || { echo "deb.sh: ${1:-packages} cannot be written to" >&2; exit 1; }
folder=$(cd "${1:-packages}" && pwd)

for tool in dh:debhelper dpkg-buildpackage:dpkg-dev lintian:lintian; do
    command -v ${tool%:*} >/dev/null ||
        { echo "deb.sh: ${tool%:*} is missing, of package ${tool#*:}: scripts/setup.sh package installs it" >&2; exit 1; }
done
work=$(mktemp -d)
. scripts/waited.sh
trap 'stop_waited; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

tarball=$(sh scripts/dist.sh "$work")
version=$(basename "$tarball" .tar.gz)
version=${version#checkmate-}
mv "$tarball" "$work/checkmate_$version.orig.tar.gz"
tar xzf "$work/checkmate_$version.orig.tar.gz" -C "$work"
tree=$work/checkmate-$version

# The version and the maintainer have one place each, and neither is in debian/.
maintainer="${DEBFULLNAME:-$(git log -1 --format=%an)} <${DEBEMAIL:-$(git log -1 --format=%ae)}>"
sed "s/@MAINTAINER@/$maintainer/" debian/control.in >"$tree/debian/control"
cat >"$tree/debian/changelog" <<END
checkmate ($version-1) unstable; urgency=medium

  * See /usr/share/doc/checkmate/changelog.gz for what changed.

 -- $maintainer  $(git log -1 --date=rfc --format=%cd)
END
export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-parallel=$(nproc)}"
waited setsid env -C "$tree" dpkg-buildpackage -us -uc >"$work/log" 2>&1 || { tail -n 60 "$work/log" >&2; exit 1; }

# As root lintian warns of itself; everything it finds in the packages is a failure, but for what is newer than the oldest suite.
lintian --allow-root --suppress-tags out-of-date-standards-version --fail-on error,warning,info --display-info "$work"/checkmate_*.changes ||
    { echo "deb.sh: lintian complains, see above" >&2; exit 1; }
for package in libcheckmate0 libcheckmate-dev checkmate; do
    set -- "$work/${package}_$version-1"_*.deb
    [ -e "$1" ] || { echo "deb.sh: $package was not built" >&2; exit 1; }
done
rm -f "$folder"/*.deb "$folder"/*.dsc "$folder"/*.tar.* "$folder"/*.changes "$folder"/*.buildinfo
find "$work" -maxdepth 1 -type f ! -name log -exec mv {} "$folder/" \;
ls "$folder"/*.deb
