#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Formats every C file of the tree with clang-format-14; with --check only says which differ.
set -eu
cd "$(dirname "$0")/.."

formatter=${CLANG_FORMAT:-clang-format-14}
command -v "$formatter" >/dev/null || { echo "format.sh: $formatter is missing. Other versions format differently. Debian 12 has a package clang-format-14, which scripts/setup.sh ci installs;" \
    "elsewhere: pip install clang-format==14.0.6, and CLANG_FORMAT=clang-format" >&2; exit 1; }

mode=-i
if [ "${1:-}" = --check ]; then
    mode="--dry-run -Werror"
fi
find include src tests examples bench tools -name '*.[ch]' -print0 2>/dev/null |
    xargs -0 --no-run-if-empty "$formatter" --style=file $mode
