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
    # A colour and a shape each: marks that lie close together are still told apart.
    set -- '#0072B2|7' '#D55E00|5' '#009E73|9' '#CC79A7|13' '#E69F00|11' '#56B4E9|4' '#000000|6' '#0072B2|8' '#D55E00|12'
    for network in $(awk -F, 'NR > 1 && !seen[$1, $3]++ { print $1 ":" $3 }' "$csv"); do
        batch=${network##*:}
        name=${network%:*}
        awk -F, -v n="$name" -v b="$batch" '$1 == n && $3 == b && $10 != "" && $11 != "" {
            low = $12 == "" ? $11 : $12
            high = $13 == "" ? $11 : $13
            print 100 * $10 "," 100 * $11 "," 100 * low "," 100 * high }' "$csv" > "$temporary/$network"
        [ -s "$temporary/$network" ] || continue
        printf ', "%s" using 1:2:3:4 with yerrorbars linewidth 1.5 pointtype %s linecolor rgb "%s" title "%s, batch %s" noenhanced' \
            "$temporary/$network" "${1#*|}" "${1%|*}" "$name" "$batch"
        [ $# -eq 1 ] || shift
    done
    echo
} > "$temporary/training.gp"
draw predicted-measured "$temporary/training.gp"
