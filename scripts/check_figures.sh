#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Finds tables with measured figures that cannot be reproduced: every Markdown table with decimal numbers in its cells
# needs, within 20 lines of it and in its section, a command, or a link to a file of bench/results that has one.
#   check_figures.sh [FILE...]      by default README.md, docs/, python/ and the READMEs of bench/ and src/
set -eu
cd "$(dirname "$0")/.."
lines=20

# Tables that are no measurements, as file and how the first row begins: definitions, and a page that is written as a whole
# by the script that its introduction names.
definitions='docs/DISTRIBUTED.md | what | what happens |
docs/RESULTS.md |
docs/ZOO.md | family | names |
python/README.md | what | what happens |
src/graph/README.md | kind |
bench/torch/README.md | file | what |'
export definitions

[ $# -gt 0 ] || set -- README.md docs/*.md python/README.md bench/README.md bench/*/README.md src/*/README.md src/*/*/README.md
LC_ALL=C awk -v lines="$lines" '
    # A command: a script or program by its path, or one of these by name and with something behind it.
    function is_command(text) {
        sub(/^ *(\$ )?/, "", text)
        while (match(text, /^[A-Z_0-9]+=("[^"]*"|[^ ]*) +/)) text = substr(text, RLENGTH + 1)
        return text ~ /^(sudo |nice |time |python3? |sh |cd [a-z]+ && |for [a-z]+ in )*(sudo |sh |python3? )?(scripts|bench|tests|build|python|examples)\/[A-Za-z0-9_\/.-]+/ ||
            text ~ /^(checkmate|make|ctest|cmake|pytest|python3? -m|cd [a-z]+ &&|awk) +[^ ]/
    }
    function links_to_command(text,   path, line, found) {
        while (match(text, /bench\/results\/[A-Za-z0-9_.\/-]+\.md/)) {
            path = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            found = 0
            while ((getline line < path) > 0) found = found || has_command(line)
            close(path)
            if (found) return 1
        }
        return 0
    }
    function has_command(text,   code) {
        if (text ~ /^    / && is_command(text)) return 1
        while (match(text, /`[^`]+`/)) {
            code = substr(text, RSTART + 1, RLENGTH - 2)
            text = substr(text, RSTART + RLENGTH)
            if (is_command(code)) return 1
        }
        return 0
    }
    function near(first, last,   i) {
        for (i = first; i >= first - lines && i > 0; i--) {
            if (text[i] ~ /^#+ /) break
            if (has_command(text[i]) || links_to_command(text[i])) return 1
        }
        for (i = last; i <= last + lines && i <= n; i++) {
            if (text[i] ~ /^#+ /) break
            if (has_command(text[i]) || links_to_command(text[i])) return 1
        }
        return 0
    }
    function is_definition(file, head,   k) {
        for (k = 1; k <= n_defined; k++) if (index(file " " head, defined[k]) == 1) return 1
        return 0
    }
    function finish(   i, first, figures) {
        for (i = 1; i <= n + 1; i++) {
            if (i <= n && text[i] ~ /^ *\|.*\|/) {
                if (!first) { first = i; figures = 0 }
                # Not in code, such as names with versions.
                line = text[i]
                gsub(/`[^`]*`/, "", line)
                figures += line ~ /[^A-Za-z0-9.][0-9]+\.[0-9]/
            } else if (first) {
                tables += figures > 0
                if (figures && !is_definition(file, text[first]) && !near(first, i - 1)) {
                    printf "%s:%d: a table of figures without a command near it that makes them: %s\n", file, first, substr(text[first], 1, 60)
                    bad++
                }
                first = 0
            }
        }
    }
    BEGIN { n_defined = split(ENVIRON["definitions"], defined, "\n") }
    FNR == 1 && file != "" { finish() }
    FNR == 1 { file = FILENAME; n = 0 }
    { text[++n] = $0 }
    END {
        if (file != "") finish()
        if (!bad) printf "%d tables of figures, each with its command\n", tables
        exit bad > 0
    }' "$@"
