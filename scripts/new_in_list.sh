# SPDX-License-Identifier: Apache-2.0
# Sourced by new_strategy.sh and new_component.sh with their arguments: copies the two skeletons under a new name and adds its line to the
# list. Set before: kind, the script's; list; macro, of a line of the list; width, to its backslash; prefix, of the file names.
LC_ALL=C
export LC_ALL
root=$(cd "$(dirname "$0")/.." && pwd)
name=${1:-}
to=${2:-$root}

case $name in
'' | -* | *- | *[!a-z0-9-]* | [0-9]*)
    echo "new_$kind.sh: NAME is small letters, digits and hyphens and begins with a letter; got '$name'" >&2
    exit 2
    ;;
esac
if [ ${#name} -gt 40 ]; then
    echo "new_$kind.sh: NAME has ${#name} characters; 40 are the most" >&2
    exit 2
fi
symbol=$(echo "$name" | tr - _)
source=src/solve/strategies/${prefix}_$symbol.c
test=tests/unit/solve/test_${prefix}_$symbol.c

if [ "$to" != "$root" ]; then
    mkdir -p "$to/${list%/*}" "$to/${source%/*}" "$to/${test%/*}"
    cp "$root/$list" "$to/$list"
fi
if grep -q "$macro($symbol)" "$to/$list" || [ -e "$root/$source" ] || [ -e "$root/$source.in" ] || [ -e "$root/$test" ]; then
    echo "new_$kind.sh: $name is there already" >&2
    exit 1
fi
fill() {
    sed -e "s/@name@/$name/g" -e "s/@symbol@/$symbol/g" "$root/$1" >"$to/$2"
}
fill "src/solve/strategies/${prefix}_template.c.in" "$source"
fill "tests/unit/solve/test_${prefix}_template.c.in" "$test"
# After the last line of the list, the only one without a continuation.
awk -v line="    $macro($symbol)" -v last="^    $macro\\\\(.*\\\\)\$" -v width="$width" '
    $0 ~ last { printf "%-" width "s \\\n%s\n", $0, line; next }
    { print }' "$to/$list" >"$to/$list.new"
mv "$to/$list.new" "$to/$list"
[ "$to" != "$root" ] || printf '%s\n' "$source" "$test" "$list"
