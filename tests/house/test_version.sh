#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The version stands in include/checkmate/base.h; everything else reads it from there. Where it must be written out, in the
# manual page, the expected help and the changelog, it is the same.
set -eu
cd "$CKM_SOURCE_DIR"
bad=0
complain() {
    echo "$*"
    bad=1
}
header=include/checkmate/base.h
number() { sed -n "s/^#define CKM_VERSION_$1 \([0-9]*\)$/\1/p" "$header"; }
version=$(sed -n 's/^#define CKM_VERSION_STRING "\([0-9]*\.[0-9]*\.[0-9]*\)"$/\1/p' "$header")
[ -n "$version" ] || { echo "$header has no CKM_VERSION_STRING of three numbers"; exit 1; }
[ "$version" = "$(number MAJOR).$(number MINOR).$(number PATCH)" ] ||
    complain "$header: CKM_VERSION_STRING is $version, the numbers are $(number MAJOR), $(number MINOR), $(number PATCH)"

# same WHERE WHAT: what is said there.
same() { [ "$2" = "$version" ] || complain "$1 says version '$2'; $header says $version"; }
same "the manual page" "$(sed -n 's/^\.TH .* "checkmate \([0-9.]*\)".*/\1/p' "$CKM_BINARY_DIR/pages/man/checkmate.1")"
same tests/golden/help.txt "$(sed -n 's/^checkmate \([0-9.]*\)$/\1/p' tests/golden/help.txt)"
same CHANGELOG.md "$(sed -n 's/^## \([0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1)"
# What was built.
same checkmate.pc "$(sed -n 's/^Version: //p' "$CKM_BINARY_DIR/checkmate.pc")"
same "the CMake package" "$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")$/\1/p' "$CKM_BINARY_DIR/checkmate-config-version.cmake")"
[ ! -x "$CHECKMATE" ] || same "checkmate --version" "$("$CHECKMATE" --version | sed 's/^checkmate //')"

# Nothing else has it written out, and the Python package none of its own.
pattern=$(echo "$version" | sed 's/\./\\./g')
others=$(grep -rnIE "(^|[^0-9.])$pattern([^0-9.]|$)" CMakeLists.txt Makefile CMakePresets.json .ci cmake include src scripts examples \
    python/pyproject.toml python/src | grep -v "^$header:.*CKM_VERSION_STRING") || true
[ -z "$others" ] || complain "the version is written out where it should be read from $header: $others"
! grep -nE '^(version|__version__) *=' python/pyproject.toml || complain "python/pyproject.toml has a version of its own"
grep -q '^metadata.version.input = "../include/checkmate/base.h"$' python/pyproject.toml ||
    complain "python/pyproject.toml does not read the version from $header"

[ $bad -eq 0 ] && echo "version $version throughout"
exit $bad
