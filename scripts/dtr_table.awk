# SPDX-License-Identifier: Apache-2.0
# From a sweep of docs/BASELINES.md's comparison of `dtr`: for the second to fourth budget, overheads in percent of the
# cheapest published strategy, of `chain` and of `dtr`.
function show(name, at) {
    print at, name, ((at, name) in least) ? sprintf("%.2f", least[at, name]) : "none"
}
BEGIN { FS = "," }
NR == 1 { next }
$3 != budget {
    budget = $3
    n++
}
$8 != "" {
    name = $4 == "chain" || $4 == "dtr" ? $4 : "published"
    if (!((n, name) in least) || 100 * $8 < least[n, name]) {
        least[n, name] = 100 * $8
    }
}
END {
    for (k = 2; k < n; k++) {
        show("published", k)
        show("chain", k)
        show("dtr", k)
    }
}
