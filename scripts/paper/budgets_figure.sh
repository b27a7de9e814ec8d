#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws what budgets.sh has found so far, one figure for every kind of costs; overheads above 60 % are left out.
. "$(dirname "$0")/lib.sh"
csv=$results/budgets.csv
size=1080,420

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
    printf 'set title "%s"\nset xtics %s\nplot ' "$4" "$tics"
    echo "$styles" | while IFS='|' read -r strategy title colour point; do
        data=$temporary/$1-$2-$strategy
        awk -F, -v n="$2" -v b="$3" -v c="$1" -v s="$strategy" '$1 == n && $2 == b && $3 == c && $8 == s && $10 != "" && $10 <= 0.6 {
            print $5 / 1e9, 100 * $10 }' "$csv" | sort -g > "$data"
        [ -s "$data" ] || echo 'NaN NaN' > "$data"
        width=1 mark=0.7
        case $strategy in
        auto) width=2.5 mark=0.8 ;;
        checkpoint-all) mark=1.5 ;;
        checkpoint-all-ap) mark=2 ;;
        esac
        printf '"%s" using 1:2 with linespoints linewidth %s linecolor rgb "%s" pointtype %s pointsize %s title "%s", ' \
            "$data" $width "$colour" "$point" $mark "$title"
    done
    # What is proven that nothing of the class can beat.
    awk -F, -v n="$2" -v b="$3" -v c="$1" '$1 == n && $2 == b && $3 == c && $8 == "auto" && $11 != "" && $11 <= 0.6 {
        print $5 / 1e9, 100 * $11 }' "$csv" | sort -g > "$temporary/$1-$2-bound"
    [ -s "$temporary/$1-$2-bound" ] || echo 'NaN NaN' > "$temporary/$1-$2-bound"
    printf '"%s" using 1:2 with lines linewidth 1.5 dashtype 2 linecolor rgb "#D55E00" title "proven bound"\n' \
        "$temporary/$1-$2-bound"
}

# figure NAME COSTS
figure() {
    networks=$(awk -F, -v c="$2" '$3 == c && ($1 == "VGG16" || $1 == "MobileNet" || $1 == "vgg_unet") && !seen[$1]++ {
        print $1 ":" $2 }' "$csv" | sort)
    [ -n "$networks" ] || return 0
    count=$(echo "$networks" | wc -l)
    {
        # Three panels and the key in the fourth place.
        cat <<END
set multiplot layout 1,$((count + 1)) margins 0.055,0.995,0.15,0.91 spacing 0.05,0
set xlabel "memory budget (GB)"
set ylabel "overhead (%)" offset 1.5,0
set yrange [-1.2:*<60]
set xrange [*:*]
set offsets graph 0.02, graph 0.02, graph 0.03, 0
set grid linecolor rgb "#dddddd" linetype 1
set border 3 linecolor rgb "#444444"
set tics nomirror textcolor rgb "#222222"
set key off
END
        for network in $networks; do
            case ${network%:*} in
            vgg_unet) title="U-Net, batch ${network#*:}" ;;
            *) title="${network%:*}, batch ${network#*:}" ;;
            esac
            panel "$2" "${network%:*}" "${network#*:}" "$title"
            echo 'unset ylabel'
        done
        cat <<END
unset title
unset xlabel
unset border
unset tics
unset grid
unset offsets
set xrange [0:1]
set yrange [0:1]
set key inside left center Left reverse samplen 2.5 spacing 1.25
END
        printf 'plot '
        echo "$styles" | while IFS='|' read -r strategy title colour point; do
            width=1
            [ "$strategy" != auto ] || width=2.5
            printf 'NaN with linespoints linewidth %s linecolor rgb "%s" pointtype %s pointsize 0.8 title "%s", ' $width \
                "$colour" "$point" "$title"
        done
        echo 'NaN with lines linewidth 1.5 dashtype 2 linecolor rgb "#D55E00" title "proven bound"'
        echo 'unset multiplot'
    } > "$temporary/$1.gp"
    draw "$1" "$temporary/$1.gp"
}

figure overhead-flops flops
figure overhead-v100-model device:V100
figure overhead-v100-profile instance
figure overhead-measured measured
