#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes docs/RESULTS.md, or $PAPER_PAGE: the prose of results.md.in, with the tables of the experiments' CSV files in place of the lines
# "@NAME@". A table whose experiment has not been run says so. All tables are of one program on one machine, or there is no page.
. "$(dirname "$0")/lib.sh"
tables=scripts/paper/tables.awk
published=scripts/paper/published.csv
page=${PAPER_PAGE:-docs/RESULTS.md}

for csv in "$results"/*.csv; do
    made_by=$(made_by_of "$csv")
    [ -n "$made_by" ] && [ "${of_all:-$made_by}" = "$made_by" ] || {
        echo "$0: $csv is of another program, processor or setting than the rest; run 'make paper'" >&2
        exit 1
    }
    of_all=$made_by
    commits="${commits:-}$(sed -n '1s/^# \(commit [^;]*\);.*/\1/p' "$csv")
"
done

# table NAME: on standard output.
table() {
    case $1 in
    machine)
        printf '%s, %s, %s.\n' "$("$checkmate" --version | head -n 1)" \
            "$(printf '%s' "$commits" | sort -u | paste -s -d , | sed 's/,/, /g')" "$of_all"
        ;;
    batches | batches_all) file=batches ;;
    table2 | budgets | budgets_v100 | budgets_instance | budgets_measured) file=budgets ;;
    speed | instances) file=devices ;;
    training)
        if [ -s "$figures/predicted-measured.svg" ]; then
            echo '![Overhead predicted and measured](figures/predicted-measured.svg)'
        else
            echo '*Not run yet: `scripts/train_table.sh`.*'
        fi
        ;;
    *) file=$1 ;;
    esac
    if [ "$1" != machine ] && [ "$1" != training ]; then
        if [ -e "$results/$file.csv" ] && [ "$(wc -l < "$results/$file.csv")" -gt 1 ]; then
            awk -F, -v table="$1" -f $tables $published "$results/$file.csv"
        else
            echo '*Not run yet.*'
        fi
    fi
}

while IFS= read -r line; do
    case $line in
    @*@)
        name=${line#@}
        table "${name%@}"
        ;;
    '!['*)
        # A figure that has not been drawn yet is left out.
        file=${line##*\(}
        [ ! -e "docs/${file%\)}" ] || printf '%s\n' "$line"
        ;;
    *) printf '%s\n' "$line" ;;
    esac
done < scripts/paper/results.md.in > "$temporary/results.md"
cp "$temporary/results.md" "$page"
say "written: $page"
