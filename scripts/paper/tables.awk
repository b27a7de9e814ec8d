# SPDX-License-Identifier: Apache-2.0
# One Markdown table from published.csv and the CSV of an experiment; `table` says which.

BEGIN {
    label["checkpoint-all"] = "checkpoint all"
    label["checkpoint-all-ap"] = "checkpoint all AP"
    label["chen-sqrt"] = "Chen √n"
    label["chen-sqrt-ap"] = "Chen √n AP"
    label["chen-greedy"] = "Chen greedy"
    label["chen-greedy-ap"] = "Chen greedy AP"
    label["griewank"] = "Griewank log n"
    label["lp-round"] = "LP rounding"
    label["lp-random"] = "random LP rounding"
    label["auto"] = "this solver"
    n_strategies = split("checkpoint-all checkpoint-all-ap chen-sqrt chen-sqrt-ap chen-greedy chen-greedy-ap griewank lp-round auto", strategies, " ")
    n_batch_strategies = split("checkpoint-all checkpoint-all-ap chen-sqrt chen-sqrt-ap chen-greedy chen-greedy-ap griewank auto", batch_strategies, " ")
    n_fig6 = split("VGG19 vgg_unet segnet fcn_8_vgg MobileNet ResNet50", fig6, " ")
    n_table2 = split("MobileNet VGG16 VGG19 vgg_unet ResNet50", table2_networks, " ")
}

# Large counts in 10^12.
function short(x) { return x + 0 >= 1e9 ? sprintf("%.4f·10¹²", x / 1e12) : or_dash(x) }
function or_dash(text) { return text == "" ? "–" : text }
function percent(x) { return x == "" ? "–" : sprintf(x < 0.0005 ? "%.2f" : x < 0.1 ? "%.2f" : "%.1f", 100 * x) }

NR == FNR {
    if ($1 == "fig6") { paper6[$2, $3] = $5; stands_for[$2, $3] = $4 }
    if ($1 == "table2") { paper2[$2, "chen-sqrt-ap"] = $3; paper2[$2, "chen-greedy-ap"] = $4; paper2[$2, "griewank"] = $5; paper2[$2, "lp-round"] = $6 }
    if ($1 == "stages") paper_stages[$2] = $4
    next
}
/^#/ || FNR == 2 { next }

table == "batches" || table == "batches_all" {
    batch[$1, $2, $3] = $5
    if ($3 == "auto") most[$1, $2] = $6
}

# Table 2: cost over the solver's, where both have a schedule, budgets up to the peak, multiply-accumulates.
table == "table2" && $3 == "flops" && $4 <= 8 {
    cost[$1, $4, $8] = $10 == "" ? "" : 1 + $10
    if ($8 == "auto") { bound[$1, $4] = $11 == "" ? "" : 1 + $11; steps[$1] = steps[$1] < $4 ? $4 : steps[$1] }
}

(table == "budgets" && $3 == "flops") || (table == "budgets_v100" && $3 == "device:V100") || \
(table == "budgets_instance" && $3 == "instance") || (table == "budgets_measured" && $3 == "measured") {
    if ($8 == "auto") {
        name = $1 ", batch " $2
        if (!(name in rows)) order[++n_rows] = name
        rows[name] = 1
        key = name SUBSEP $4
        over[key] = $10; low[key] = $11; part[key] = $5 / $7; status[key] = $9; took[key] = $13
    } else if ($10 != "") {
        key = $1 ", batch " $2 SUBSEP $4
        if (!(key in best) || $10 + 0 < best[key] + 0) { best[key] = $10; by[key] = label[$8] }
    }
}

table == "speed" && $1 != "instance" {
    if (!head++) print "| device | network | batch | | measured | model | model / measured | measured by |\n|---|---|---|---|---|---|---|---|"
    printf "| %s | %s | %s | %s | %.1f ms | %.1f ms | %.2f | %s |\n", $1, $2, $3, $4, $5, $6, $6 / $5, $7
}
table == "instances" && $1 == "instance" {
    if (!head++) print "| instance | compared with | sum of the instance | sum of the model | |\n|---|---|---|---|---|"
    printf "| %s, batch %s | %s | %s ms | %s | %s |\n", $2, $3, $4, $5, $6 == "" ? "–" : $6 " ms", $7
}

table == "stages" {
    if (!head++) print "| graph | operators | budget | formulation | relaxation | best cost | best / relaxation | integer program | its bound | s |\n|---|---|---|---|---|---|---|---|---|---|"
    printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %.1f |\n", $1, $2, $3, $4, short($5), short($6), or_dash($7), $8, short($9), $10
}

table == "rounding" {
    key = $1 ", batch " $2 SUBSEP $3
    if (!(key in seen)) { seen[key] = 1; order[++n_rows] = key }
    if ($4 == "lp-random") {
        tries[key]++
        if ($7 != "") { fits[key]++; sum[key] += $7; if (fits[key] == 1 || $7 + 0 < least[key] + 0) least[key] = $7 }
    } else result[key, $4] = $7
}

END {
    if (table == "batches") {
        print "| network | | all | √n or AP | greedy | optimal | proven at most |\n|---|---|---|---|---|---|---|"
        split("all sqrt greedy optimal", bar, " ")
        for (i = 1; i <= n_fig6; i++) {
            line = "| " fig6[i] " | paper |"
            mine = "| | here |"
            for (k = 1; k <= 4; k++) {
                line = line " " paper6[fig6[i], bar[k]] " |"
                mine = mine " " or_dash(batch[fig6[i], "paper", stands_for[fig6[i], bar[k]]]) " |"
            }
            print line " |"
            print mine " " or_dash(most[fig6[i], "paper"]) " |"
        }
    }
    if (table == "batches_all") {
        line = "| network | accounting |"
        rule = "|---|---|"
        for (k = 1; k <= n_batch_strategies; k++) { line = line " " label[batch_strategies[k]] " |"; rule = rule "---|" }
        print line " proven at most |\n" rule "---|"
        for (i = 1; i <= n_fig6; i++) {
            for (a = 1; a <= 2; a++) {
                accounting = a == 1 ? "paper" : "normal"
                line = "| " (a == 1 ? fig6[i] : "") " | " (a == 1 ? "artifact's" : "physical") " |"
                for (k = 1; k <= n_batch_strategies; k++) line = line " " or_dash(batch[fig6[i], accounting, batch_strategies[k]]) " |"
                print line " " or_dash(most[fig6[i], accounting]) " |"
            }
        }
    }
    if (table == "table2") {
        print "| network | | Chen √n | Chen √n AP | Chen greedy | Chen greedy AP | Griewank log n | LP rounding | this solver over its bound |\n|---|---|---|---|---|---|---|---|---|"
        split("chen-sqrt chen-sqrt-ap chen-greedy chen-greedy-ap griewank lp-round", judged, " ")
        for (i = 1; i <= n_table2; i++) {
            n = table2_networks[i]
            line = "| " n " | paper |"
            for (k = 1; k <= 6; k++) line = line " " or_dash(paper2[n, judged[k]]) " |"
            print line " |"
            line = "| | here |"
            for (k = 1; k <= 6; k++) {
                count = 0; total = 0
                for (s = 0; s <= 8; s++) {
                    a = cost[n, s, judged[k]]; b = cost[n, s, "auto"]
                    if (a != "" && b != "") { count++; total += log(a / b) }
                }
                line = line " " (count ? sprintf("%.2f (%d)", exp(total / count), count) : "–") " |"
            }
            count = 0; total = 0
            for (s = 0; s <= 8; s++)
                if (cost[n, s, "auto"] != "" && bound[n, s] != "") { count++; total += log(cost[n, s, "auto"] / bound[n, s]) }
            print line " " (count ? sprintf("%.4f (%d)", exp(total / count), count) : "–") " |"
        }
    }
    if (table ~ /^budgets/) {
        if (n_rows == 0) print "*Not run yet.*"
        else print "| network | budget | overhead | proven at least | status | best other strategy | s |\n|---|---|---|---|---|---|---|"
        for (i = 1; i <= n_rows; i++) {
            first = 1
            for (s = 9; s >= 0; s--) {
                key = order[i] SUBSEP s
                if (!(key in part)) continue
                printf "| %s | %.0f %% | %s | %s | %s | %s | %.1f |\n", first ? order[i] : "", 100 * part[key], percent(over[key]), \
                    percent(low[key]), status[key], key in best ? percent(best[key]) ", " by[key] : "none fits", took[key]
                first = 0
            }
        }
    }
    if (table == "rounding") {
        print "| network | budget | this solver | LP rounding | random LP rounding: seeds that fit | mean | best |\n|---|---|---|---|---|---|---|"
        for (i = 1; i <= n_rows; i++) {
            key = order[i]
            split(key, parts, SUBSEP)
            printf "| %s | %s %% | %s | %s | %d of %d | %s | %s |\n", parts[1], parts[2], percent(result[key, "auto"]), \
                result[key, "lp-round"] == "" ? "none fits" : percent(result[key, "lp-round"]), fits[key], tries[key], \
                fits[key] ? percent(sum[key] / fits[key]) : "–", fits[key] ? percent(least[key]) : "–"
        }
    }
}
