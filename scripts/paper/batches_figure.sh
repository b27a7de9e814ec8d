#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws what batches.sh has found: a panel a network, the paper's four bars next to ours under the artifact's accounting, and
# what is proven to be out of reach.
. "$(dirname "$0")/lib.sh"
csv=$results/batches.csv
size=900,540

# shellcheck disable=SC2046
proven="proven upper bound for $(bound_class $(awk -F, '$2 == "paper" && $3 == "auto" && $6 != "" && $10 != "" && !seen[$10]++ { print $10 }' "$csv"))"
{
    cat <<END
$style
set multiplot layout 2,3 margins 0.062,0.99,0.13,0.935 spacing 0.055,0.13
set key off
set style fill solid 1 noborder
unset grid
set grid ytics linecolor rgb "#dddddd" linetype 1
set xrange [-0.6:3.6]
set yrange [0:*]
set offsets 0, 0, graph 0.12, 0
set style textbox opaque noborder margins 0.2,0.2
set xtics scale 0 ("all" 0, "√n or AP" 1, "greedy" 2, "optimal" 3)
set ylabel "largest batch" offset 1.5,0
set label 1 "■ paper" at screen 0.06,0.035 textcolor rgb "#777777"
set label 2 "■ here, by the accounting of the paper's artifact" at screen 0.15,0.035 textcolor rgb "#0072B2"
set label 3 "▬ $proven" at screen 0.555,0.035 textcolor rgb bound
END
    for network in VGG19 vgg_unet segnet fcn_8_vgg MobileNet ResNet50; do
        data=$temporary/$network
        # Place, the paper's, ours, the bound, and how high our number stands: above the bound's line, never under it.
        awk -F, -v n=$network 'NR == FNR {
                if ($1 == "fig6" && $2 == n) { order[++k] = $4; paper[k] = $5 }
                next
            }
            $1 == n && $2 == "paper" {
                mine[$3] = $5
                if ($3 == "auto") most = $6
            }
            END {
                for (i = 1; i <= k; i++) {
                    ours = mine[order[i]]
                    limit = i == k ? most : ""
                    print i - 1, paper[i], ours == "" ? "NaN" : ours, limit == "" ? "NaN" : limit,
                        (ours == "" ? "NaN" : limit + 0 > ours + 0 ? limit : ours)
                }
            }' scripts/paper/published.csv "$csv" > "$data"
        case $network in
        vgg_unet) title=U-Net ;;
        fcn_8_vgg) title=FCN8 ;;
        segnet) title=SegNet ;;
        *) title=$network ;;
        esac
        cat <<END
set title "$title"
plot "$data" using (\$1 - 0.2):2:(0.36) with boxes linecolor rgb "#999999" notitle, \
     "$data" using (\$1 + 0.2):3:(0.36) with boxes linecolor rgb "#0072B2" notitle, \
     "$data" using (\$1 - 0.02):4:(0.44):(0) with vectors nohead linewidth 2.5 linecolor rgb bound notitle, \
     "$data" using (\$1 - 0.03):2:2 with labels right offset 0,0.7 boxed font ",11" textcolor rgb "#555555" notitle, \
     "$data" using (\$1 + 0.05):5:3 with labels left offset 0,0.7 boxed font ",11" textcolor rgb "#0072B2" notitle, \
     "$data" using (\$4 > \$3 ? \$1 - 0.06 : NaN):4:4 with labels right boxed font ",11" textcolor rgb bound notitle
unset ylabel
unset label
END
        [ $network != segnet ] || echo 'set ylabel "largest batch" offset 1.5,0'
    done
    echo 'unset multiplot'
} > "$temporary/batches.gp"
draw largest-batch "$temporary/batches.gp"
