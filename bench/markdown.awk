# SPDX-License-Identifier: Apache-2.0
# The CSV of run.sh as Markdown: one table a suite, the spread of gaps under those with many budgets.

# Splits a CSV line into f[1..]; quotes enclose fields with commas.
function split_csv(line,   n, c, i, quoted, field) {
    delete f
    n = 1
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (c == "\"") quoted = !quoted
        else if (c == "," && !quoted) { f[n++] = field; field = "" }
        else field = field c
    }
    f[n] = field
    return n
}

function or_dash(text) { return text == "" ? "–" : text }

# Median and worst gap of each case that had at least three budgets.
function spread(   name, i, j, n, list, tmp, text) {
    for (name in gaps) {
        n = split(gaps[name], list, " ")
        if (n < 3) continue
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && list[j] + 0 < list[j - 1] + 0; j--) { tmp = list[j]; list[j] = list[j - 1]; list[j - 1] = tmp }
        tmp = n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
        text = text sprintf("%s%s: median gap %.4g %%, worst %.4g %% of %d%s", text == "" ? "" : "; ", name, tmp, list[n], n, \
            none[name] ? " (and " none[name] " without a schedule)" : "")
    }
    if (text != "") print "\n" text "."
    delete gaps
    delete none
}

BEGIN {
    print "# Benchmark\n"
    printf "%s; %s, %s threads a solve.\n", version, machine, threads
    print "Overhead and gap in percent; times in seconds from the start of the process, reading the file included; MB of the"
    print "largest process, engines included. *first*: the first schedule within the budget; *near*: the incumbent is within 0.1 %"
    print "of the final one; *covers*: the schedules the bound covers (docs/SOLVER.md). Made by `bench/run.sh`; targets are in"
    print "`bench/cases.txt`."
}

NR > 1 {
    split_csv($0)
    if (f[1] != suite) {
        spread()
        suite = f[1]
        batches = f[16] ~ /^batch/
        printf "\n## %s\n\n", suite
        if (batches) print "| network | batch | at most | status | overhead | s | MB | to reach | met | all / √n or AP / greedy / program |\n|---|---|---|---|---|---|---|---|---|---|"
        else print "| case | operators | budget | status | overhead | gap | covers | first | near | s | MB | to reach | met | published |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    }
    gsub("<=", " ≤ ", f[16])
    gsub(">=", " ≥ ", f[16])
    if (batches) printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", f[2], or_dash(f[10]), or_dash(f[11]), f[6], \
        or_dash(f[7]), f[14], f[15], f[16], f[17], f[18]
    else printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", f[2], f[3], f[4], f[6], \
        or_dash(f[7]), or_dash(f[8]), or_dash(f[9]), or_dash(f[12]), or_dash(f[13]), f[14], f[15], or_dash(f[16]), or_dash(f[17]), or_dash(f[18])
    if (!batches && f[8] != "") gaps[f[2]] = gaps[f[2]] " " f[8]
    if (!batches && f[8] == "") none[f[2]]++
    if (f[17] != "") { judged++; reached += f[17] == "yes" }
}

END {
    spread()
    printf "\n%d of %d stated targets reached.\n", reached, judged
    if (skipped != "") {
        gsub("\\\\n", "\n", skipped)
        printf "\nSkipped:\n\n%s", gensub_lines(skipped)
    }
}

function gensub_lines(text,   n, i, line, out) {
    n = split(text, line, "\n")
    for (i = 1; i <= n; i++) if (line[i] != "") out = out "- " line[i] "\n"
    return out
}
