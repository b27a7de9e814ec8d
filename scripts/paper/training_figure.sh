#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws predicted against measured overhead of training from docs/training.csv, which scripts/train_table.sh makes.
. "$(dirname "$0")/lib.sh"
csv=docs/training.csv
size=640,520
if [ ! -s "$csv" ]; then
    say "skipped: $csv is not there; scripts/train_table.sh makes it"
    exit 0
fi

{
    cat <<END
$style
set datafile separator ","
set xlabel "overhead predicted (%)"
set ylabel "overhead measured (%)" offset 1,0
set key inside left top Left reverse samplen 1
set offsets graph 0.03, graph 0.03, graph 0.03, graph 0.03
END
    printf 'plot x with lines linewidth 1 dashtype 2 linecolor rgb "#444444" title "as predicted"'
    set -- '#0072B2' '#D55E00' '#009E73' '#CC79A7' '#E69F00' '#56B4E9' '#000000'
    for network in $(awk -F, 'NR > 1 && !seen[$1]++ { print $1 }' "$csv"); do
        awk -F, -v n="$network" '$1 == n && $10 != "" && $11 != "" {
            low = $12 == "" ? $11 : $12
            high = $13 == "" ? $11 : $13
            print 100 * $10 "," 100 * $11 "," 100 * low "," 100 * high }' "$csv" > "$temporary/$network"
        [ -s "$temporary/$network" ] || continue
        printf ', "%s" using 1:2:3:4 with yerrorbars linewidth 1.5 pointtype 7 linecolor rgb "%s" title "%s" noenhanced' \
            "$temporary/$network" "$1" "$network"
        [ $# -eq 1 ] || shift
    done
    echo
} > "$temporary/training.gp"
draw predicted-measured "$temporary/training.gp"
