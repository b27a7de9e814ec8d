#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files and lines by module, next to the limits of scripts/size.txt. Ends with status 1 where a module is above its limit, or has none:
# growth is a decision, made by editing that file.
# Usage: scripts/size.sh [--update]      --update writes limits that leave each module 2 % and a file to grow
set -eu
cd "$(dirname "$0")/.."
limits=scripts/size.txt

# Module, files and lines. The module is the folder, down to two levels.
sizes() {
    find src include python/src python/tests tests bench scripts docs -type f \( -name '*.[ch]' -o -name '*.py' -o -name '*.sh' -o -name '*.md' \) \
        ! -path '*/results/*' ! -path 'src/*.md' ! -path 'tests/*.md' ! -path 'python/*.md' ! -path 'bench/*.md' | while read -r file; do
        printf '%s %s\n' "$(wc -l <"$file")" "$file"
    done | awk '{
        n = split($2, part, "/")
        module = part[1]
        if ((module == "src" || module == "tests") && n > 2) module = module "/" part[2]
        if (module == "python" && n > 3) module = part[1] "/" part[2] (part[2] == "src" && n > 4 ? "/" part[4] : "")
        files[module]++; lines[module] += $1
    } END { for (module in files) print module, files[module], lines[module] }' | LC_ALL=C sort
}

if [ "${1:-}" = --update ]; then
    {
        echo "# module, most files, most lines: scripts/size.sh --update"
        sizes | awk '{ printf "%s %d %d\n", $1, $2 + 1, int(($3 * 1.02 + 49) / 50) * 50 }'
    } >"$limits.new"
    mv "$limits.new" "$limits"
    exit 0
fi
[ $# -eq 0 ] || { echo "usage: size.sh [--update]" >&2; exit 2; }
sizes | awk -v limits="$limits" '
    BEGIN {
        while ((getline line < limits) > 0) if (line !~ /^#/) { split(line, f, " "); most_files[f[1]] = f[2]; most_lines[f[1]] = f[3] }
        printf "%-24s %6s %8s\n", "module", "files", "lines"
    }
    {
        note = !($1 in most_files) ? "  no limit in " limits : $2 > most_files[$1] || $3 > most_lines[$1] ? \
            sprintf("  above its limit of %d files, %d lines", most_files[$1], most_lines[$1]) : ""
        above += note != ""
        printf "%-24s %6d %8d%s\n", $1, $2, $3, note
        files += $2; lines += $3
    }
    END { printf "%-24s %6d %8d\n", "all", files, lines; exit above > 0 }'
