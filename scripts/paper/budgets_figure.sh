#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws what budgets.sh has found so far, one figure for every kind of costs. The overhead's axis is linear near 0 and
# logarithmic above 1 %, so that strategies that cost 0.2 % and 400 % are both told apart from their neighbours.
. "$(dirname "$0")/lib.sh"
csv=$results/budgets.csv
size=860,470

# Strategy, title, colour, point type; ours last, on top.
styles='checkpoint-all|checkpoint all|#000000|4
checkpoint-all-ap|checkpoint all AP|#000000|6
chen-sqrt|Chen √n|#E69F00|8
chen-sqrt-ap|Chen √n AP|#E69F00|10
chen-greedy|Chen greedy|#56B4E9|8
chen-greedy-ap|Chen greedy AP|#56B4E9|10
griewank|Griewank log n|#CC79A7|12
lp-round|LP rounding|#009E73|14
auto|this solver|#0072B2|7'

# rows COSTS NETWORK BATCH STRATEGY FIELD: budgets in GB and FIELD in percent, where there is one.
rows() {
    awk -F, -v n="$2" -v b="$3" -v c="$1" -v s="$4" -v field="$5" '$1 == n && $2 == b && $3 == c && $8 == s && $field != "" {
        print $5 / 1e9, 100 * $field }' "$csv" | sort -g > "$temporary/rows"
    [ -s "$temporary/rows" ] || echo 'NaN NaN' > "$temporary/rows"
    cat "$temporary/rows"
}

# panel COSTS NETWORK BATCH TITLE
panel() {
    # About five tics, a round number of gigabytes apart.
    tics=$(awk -F, -v n="$2" -v b="$3" -v c="$1" '$1 == n && $2 == b && $3 == c {
            x = $5 / 1e9
            low = low == "" || x < low ? x : low
            high = x > high ? x : high }
        END {
            step = (high - low) / 4
            unit = 10 ^ int(log(step) / log(10))
            if (unit > step) unit /= 10
            print unit * (step / unit < 1.5 ? 1 : step / unit < 3.5 ? 2 : step / unit < 7.5 ? 5 : 10) }' "$csv")
    # Room over the highest marks.
    top=$(awk -F, -v n="$2" -v b="$3" -v c="$1" '$1 == n && $2 == b && $3 == c && $10 != "" && $10 > most { most = $10 }
        END { print 130 * most }' "$csv")
    printf 'set title "%s"\nset xtics %s\nset yrange [-0.12:%s]\nplot ' "$4" "$tics" "$top"
    echo "$styles" | while IFS='|' read -r strategy title colour point; do
        data=$temporary/$1-$2-$strategy
        rows "$1" "$2" "$3" "$strategy" 10 > "$data"
        width=1 mark=0.7
        case $strategy in
        auto) width=2.5 mark=0.8 ;;
        checkpoint-all) mark=1.5 ;;
        checkpoint-all-ap) mark=2 ;;
        esac
        # A schedule fits every larger budget too: steps, which claim no more than that.
        printf '"%s" using 1:2 with steps linewidth %s linecolor rgb "%s", "" using 1:2 with points linecolor rgb "%s" pointtype %s pointsize %s, ' \
            "$data" $width "$colour" "$colour" "$point" $mark
    done
    # What is proven that nothing of the class can beat, here or with less memory.
    rows "$1" "$2" "$3" auto 11 > "$temporary/$1-$2-bound"
    printf '"%s" using 1:2 with fsteps linewidth 2 dashtype (6,4) linecolor rgb bound\n' "$temporary/$1-$2-bound"
}

# figure NAME COSTS
figure() {
    networks=$(awk -F, -v c="$2" '$3 == c && ($1 == "VGG16" || $1 == "MobileNet" || $1 == "vgg_unet") && !seen[$1]++ {
        print $1 ":" $2 }' "$csv" | sort)
    [ -n "$networks" ] || return 0
    count=$(echo "$networks" | wc -l)
    # shellcheck disable=SC2046
    proven="proven lower bound for $(bound_class $(awk -F, -v c="$2" '$3 == c && $8 == "auto" && $12 != "" && !seen[$12]++ {
        print $12 }' "$csv"))"
    {
        # The panels, and the key below all of them.
        cat <<END
$style
set multiplot
set nonlinear y via asinh(y / 0.5) inverse 0.5 * sinh(y)
set ytics (0, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
set xlabel "memory budget (GB)"
set ylabel "overhead (%), logarithmic above 1 %" offset 1,0
set yrange [-0.12:*]
set xrange [*:*]
set offsets graph 0.03, graph 0.03, 0, 0
set tmargin at screen 0.92
set bmargin at screen 0.315
set key off
END
        place=0
        for network in $networks; do
            case ${network%:*} in
            vgg_unet) title="U-Net, batch ${network#*:}" ;;
            *) title="${network%:*}, batch ${network#*:}" ;;
            esac
            awk -v k=$place -v n="$count" 'BEGIN {
                wide = 0.93 / n
                printf "set lmargin at screen %.4f\nset rmargin at screen %.4f\n", 0.075 + k * wide, 0.075 + (k + 1) * wide - 0.055
            }'
            panel "$2" "${network%:*}" "${network#*:}" "$title"
            echo 'unset ylabel'
            place=$((place + 1))
        done
        cat <<END
unset title
unset xlabel
unset border
unset tics
unset grid
unset nonlinear y
set offsets 0, 0, 0, 0
set xrange [0:1]
set yrange [0:1]
set lmargin at screen 0.04
set rmargin at screen 0.99
set tmargin at screen 0.20
set bmargin at screen 0.075
set key at screen 0.5, screen 0.19 center top horizontal maxcols 5 Left reverse samplen 2.5 spacing 1.2 width 1
set label "$proven" at screen 0.115, screen 0.03 left
set arrow from screen 0.055, screen 0.03 to screen 0.105, screen 0.03 nohead linewidth 2 dashtype (6,4) linecolor rgb bound
END
        printf 'plot '
        echo "$styles" | while IFS='|' read -r strategy title colour point; do
            width=1 separator=', '
            [ "$strategy" != auto ] || width=2.5 separator=''
            printf 'NaN with linespoints linewidth %s linecolor rgb "%s" pointtype %s pointsize 0.8 title "%s"%s' $width \
                "$colour" "$point" "$title" "$separator"
        done
        printf '\nunset multiplot\n'
    } > "$temporary/$1.gp"
    draw "$1" "$temporary/$1.gp"
}

figure overhead-flops flops
figure overhead-v100-model device:V100
figure overhead-v100-profile instance
figure overhead-measured measured
