#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the structures of options in the public headers: those with an _INIT macro begin with their size, the macro sets nothing
# else, none is nested in another, and tests/unit/api/test_option_sizes.c has a row for every function that takes one and every member that
# points to one. Usage: check_options.sh [ROOT]. Prints one line for each violation; exit status 1 when there is any.
set -eu
root=${1:-$(dirname "$0")/..}
cd "$root"

awk '
FILENAME ~ /\.c$/ {
    if (match($0, /ROW\([a-z_]+, ckm_[a-z_]+/)) {
        split(substr($0, RSTART + 4, RLENGTH - 4), parts, /, /)
        rows[parts[1] " " parts[2]] = 1
    }
    next
}
{ sub(/\/\/.*/, "") }
/^#define CKM_[A-Z_]+_INIT/ {
    macro = tolower(substr($2, 1, length($2) - 5))
    macros[macro] = 1
    if (macro != "ckm_error" && $3 != "CKM_SIZED(" macro ")") {
        bare[macro] = 1
    }
}
/^ *#/ { next }
# Structures: which begin with their size, and what members they have.
/^typedef struct ckm_[a-z_]+ \{/ { type = $3; n = 0; next }
type != "" && /^}/ { type = ""; next }
type != "" {
    if (n++ == 0) {
        sized[type] = $0 ~ /^ *size_t size;/
        seen[type] = 1
    }
    line = $0
    sub(/^ *const /, "", line)
    sub(/^ */, "", line)
    split(line, words, / /)
    if (words[1] ~ /^ckm_/) {
        name = words[2]
        sub(/;.*/, "", name)
        members[type " " name " " words[1]] = 1
    }
    next
}
# Functions, over line ends.
{
    text = text " " $0
    if ($0 ~ /;/) {
        if (text ~ /CKM_API/ && match(text, /ckm_[a-z0-9_]+\(/)) {
            functions[substr(text, RSTART + 4, RLENGTH - 5)] = substr(text, RSTART + RLENGTH)
        }
        text = ""
    }
}
function say(words) {
    print words
    bad = 1
}
END {
    for (type in macros) {
        if (type != "ckm_error" && seen[type] && !sized[type]) {
            say(type " has an _INIT macro and does not begin with size_t size")
        }
    }
    for (type in bare) {
        say(toupper(type) "_INIT is not CKM_SIZED(" type "): members at 0 are to mean the default")
    }
    for (type in sized) {
        if (sized[type] && !macros[type]) {
            say(type " begins with size_t size and has no _INIT macro")
        }
    }
    for (member in members) {
        split(member, words, / /)
        if (!sized[words[3]]) {
            continue
        }
        if (words[2] !~ /^\*/) {
            say(words[1] "." words[2] " is a " words[3] " by value: it cannot grow")
            continue
        }
        outer = words[1]
        sub(/^ckm_/, "", outer)
        sub(/_options$/, "", outer)
        name = substr(words[2], 2)
        found = 0
        for (row in rows) {
            split(row, pair, / /)
            found = found || (pair[1] ~ "^" outer "_.*" name "$|^" outer "_" name "$" && pair[2] == words[3])
        }
        if (!found) {
            say("tests/unit/api/test_option_sizes.c has no row for " words[1] "." name)
        }
    }
    for (name in functions) {
        for (type in sized) {
            if (sized[type] && functions[name] ~ "const " type " \\*" && !((name " " type) in rows)) {
                say("tests/unit/api/test_option_sizes.c has no row for ckm_" name " and its " type)
            }
        }
    }
    exit bad
}
' tests/unit/api/test_option_sizes.c include/checkmate/*.h
