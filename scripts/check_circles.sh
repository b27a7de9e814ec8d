#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files call each other in one direction: fails for files of an archive whose functions call each other in a circle, and
# names them with the calls. A table that lists what others provide, as a registry does, is data and counts as no call.
# Usage: check_circles.sh ARCHIVE
set -eu
[ $# -eq 1 ] && [ -f "$1" ] || { echo "usage: check_circles.sh ARCHIVE" >&2; exit 2; }
command -v nm >/dev/null || { echo "check_circles.sh: nm is missing (binutils)" >&2; exit 77; }

nm "$1" | awk '
NF == 0 { next }
/:$/ { file = substr($0, 1, length($0) - 1); sub(/\.o$/, "", file); files[file] = 1; next }
$(NF - 1) == "T" || $(NF - 1) == "W" { owner[$NF] = file }
$(NF - 1) == "U" { needs[file, $NF] = 1 }
END {
    for (pair in needs) {
        split(pair, p, SUBSEP)
        to = owner[p[2]]
        if (to != "" && to != p[1]) {
            call[p[1], to] = p[2]
        }
    }
    # A file that calls none, or is called by none, is in no circle. The others are, or lie between two circles.
    do {
        changed = 0
        split("", out); split("", in_)
        for (pair in call) { split(pair, p, SUBSEP); out[p[1]] = 1; in_[p[2]] = 1 }
        for (pair in call) {
            split(pair, p, SUBSEP)
            if (!(p[1] in in_) || !(p[2] in out)) { delete call[pair]; changed = 1 }
        }
    } while (changed)
    for (pair in call) {
        split(pair, p, SUBSEP)
        print p[1] " calls " call[pair] " of " p[2]
        bad = 1
    }
    if (length(files) == 0) { print "no files found"; bad = 1 }
    exit bad
}' || { echo "these files call each other in a circle, see above" >&2; exit 1; }
