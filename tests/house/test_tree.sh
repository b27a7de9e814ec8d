#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# House rules that a machine can check: a README in every source folder, unique file names, licence lines,
# scripts that parse. Files past 700 lines are named, without failing.
set -eu
cd "$CKM_SOURCE_DIR"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0
complain() {
    echo "$*"
    bad=1
}

for folder in src/*/; do
    # An empty folder is not in the project.
    [ -n "$(ls "$folder")" ] || continue
    [ -s "${folder}README.md" ] || complain "$folder has no README.md: what lives here, where to start, what may be included"
done

names=$(find src -name '*.[ch]' ! -path '*/README.md' -exec basename {} \; | LC_ALL=C sort | uniq -d)
[ -z "$names" ] || complain "file names must be unique under src: $names"
names=$(find tests -name 'test_*.c' -exec basename {} \; | LC_ALL=C sort | uniq -d)
[ -z "$names" ] || complain "test names must be unique: $names"

for file in $(find include src tests examples scripts \( -name '*.[ch]' -o -name '*.sh' \) ! -path 'tests/fuzz/corpus/*' 2>/dev/null); do
    head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || complain "$file: no licence line on top"
    lines=$(wc -l <"$file")
    [ "$lines" -le 700 ] || echo "warning: $file has $lines lines; look for a seam"
done

for script in $(find scripts tests bench -name '*.sh' 2>/dev/null); do
    case $(head -n 1 "$script") in
    *bash*) bash -n "$script" || complain "$script does not parse" ;;
    *) sh -n "$script" || complain "$script does not parse" ;;
    esac
done

# The library knows no command line: its messages have to make sense to any caller.
options=$(grep -rnE '"[^"]*(^|[ (])--[a-z][a-z-]+[^"]*"' src --include='*.[ch]' | grep -v '^src/cli/') || true
[ -z "$options" ] || complain "the library speaks of command-line options: $options"

# Code that needs a deadline asks for a slice: the clock of a solve has one owner.
setters=$(grep -rnE '(solver|inner|outer|attempt)(->|\.)(start|deadline|give_up|latest)_seconds *[-+]?= ' src/solve --include='*.c' |
    grep -v '^src/solve/core/solver_time.c:') || true
[ -z "$setters" ] || complain "only src/solve/core/solver_time.c sets the clock of a solve: $setters"

# The table of modules says what scripts/check_includes.sh enforces.
sed -n 's/^    allow("\([a-z]*\)", "\([a-z ]*\)")$/\1 \2/p' scripts/check_includes.sh >"$scratch/enforced"
[ -s "$scratch/enforced" ] || complain "scripts/check_includes.sh has no table of modules"
while read -r module list; do
    row=$(sed -n "s/^| \`$module\` |.*| \([^|]*\) |\$/\1/p" docs/ARCHITECTURE.md | sed 's/([^)]*)//g; s/nothing//')
    said=$(echo "$row" | tr -s ', ' '\n' | LC_ALL=C sort | xargs)
    rule=$(echo "$list" | tr -s ' ' '\n' | LC_ALL=C sort | xargs)
    grep -q "^| \`$module\` |" docs/ARCHITECTURE.md || complain "docs/ARCHITECTURE.md has no row for module $module"
    [ "$said" = "$rule" ] || complain "docs/ARCHITECTURE.md says that $module may include '$said'; enforced is '$rule'"
done <"$scratch/enforced"

# Links between documents, and documents that the code refers to.
for document in *.md docs/*.md src/*/README.md; do
    for link in $(grep -o '](\([^)#]*\)' "$document" | sed 's/^](//' | grep -v -e '^http' -e '^mailto'); do
        [ -e "$(dirname "$document")/$link" ] || complain "$document links to $link, which is not there"
    done
done
for document in $(grep -rhoE 'docs/[A-Za-z-]+\.md' include src docs scripts README.md CONTRIBUTING.md | sort -u); do
    [ -e "$document" ] || complain "$document is referred to and is not there"
done

[ $bad -eq 0 ] && echo "the tree keeps its rules"
exit $bad
