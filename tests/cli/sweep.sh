# SPDX-License-Identifier: Apache-2.0
# sweep: columns, rows, budgets, infeasible rows, order, and the figure.
. "$(dirname "$0")/lib.sh"

cp "$data/unit_chain8.json" graph.json
header=network,operators,budget_bytes,strategy,status,cost,baseline_cost,overhead,peak_bytes,bound_cost,bound_covers,gap,seconds

expect 0 sweep graph.json --budgets 7 --strategies checkpoint-all,chen-sqrt -o sweep.csv
[ -z "$out" ] || fail "with -o nothing belongs on standard output"
[ "$(head -n 1 sweep.csv)" = "$header" ] || fail "header: $(head -n 1 sweep.csv)"
[ "$(wc -l < sweep.csv)" -eq 15 ] || fail "expected 15 lines, got $(wc -l < sweep.csv)"
# Evenly spaced from the floor, 4, to the peak, 10, both included.
budgets=$(awk -F, 'NR > 1 && $4 == "chen-sqrt" { printf "%s ", $3 }' sweep.csv)
[ "$budgets" = "4 5 6 7 8 9 10 " ] || fail "budgets: $budgets"
awk -F, 'NR > 1 && NF != 13 { print "a row with " NF " columns: " $0; bad = 1 }
    NR > 1 && ($1 != "unit-chain-8" || $2 != 17) { print "network or operators: " $0; bad = 1 }
    NR > 1 && $6 != "" && $9 > $3 { print "over budget: " $0; bad = 1 }
    NR > 1 && $6 != "" && ($8 - ($6 - $7) / $7) ^ 2 > 1e-12 { print "overhead: " $0; bad = 1 }
    NR > 1 && $6 == "" && $5 != "infeasible" && $5 != "unknown" { print "no cost, yet " $0; bad = 1 }
    NR > 1 && $4 == "checkpoint-all" && ($3 == 10) != ($6 != "") { print "checkpoint-all: " $0; bad = 1 }
    END { exit bad }' sweep.csv >&2 || fail "rows are wrong"

# The rows on standard output are the same rows.
# The least that fits, and a little more, each once.
expect 0 sweep graph.json --budgets near-min --strategies auto -o near.csv
budgets=$(awk -F, 'NR > 1 { printf "%s ", $3 }' near.csv)
[ "$budgets" = "4 5 6 8 " ] || fail "budgets near the least: $budgets"
if awk -F, 'NR > 1 && $6 == "" { exit 1 }' near.csv; then :; else fail "no schedule where one was found: $(cat near.csv)"; fi
expect 0 sweep graph.json --budgets 7 --strategies checkpoint-all,chen-sqrt
cut -d, -f1-12 sweep.csv > a.txt
cut -d, -f1-12 out.txt > b.txt
cmp -s a.txt b.txt || fail "-o and standard output differ"

# A figure, or one clear error without gnuplot.
if command -v gnuplot > /dev/null; then
    expect 0 sweep graph.json --budgets 3 --strategies chen-sqrt -o sweep.csv --plot sweep.svg
    grep -q '<svg' sweep.svg || fail "sweep.svg is no SVG"
    grep -q 'chen-sqrt' sweep.svg || fail "sweep.svg has no legend"
    # A mark of its own for every strategy that has schedules, not a colour alone.
    all=auto,checkpoint-all,checkpoint-all-ap,chen-sqrt,chen-sqrt-ap,chen-greedy,chen-greedy-ap,griewank,chain,dtr
    expect 0 sweep graph.json --budgets 12,13 --strategies $all -o sweep.csv --plot sweep.svg
    drawn=$(awk -F, 'NR > 1 && $6 != "" { print $4 }' sweep.csv | sort -u | wc -l)
    marks=$(grep -o "use xlink:href='#gpPt[0-9]*'" sweep.svg | sort -u | wc -l)
    [ "$drawn" -gt 8 ] || fail "only $drawn strategies have schedules"
    [ "$marks" -eq "$drawn" ] || fail "$drawn strategies share $marks marks"
else
    echo "note: gnuplot is not installed; the figure is not checked" >&2
fi
PATH=/nonexistent "$CHECKMATE" sweep graph.json --budgets 2 --strategies checkpoint-all -o sweep.csv --plot none.svg 2> err.txt
[ $? -eq 1 ] || fail "a missing gnuplot is not a failure"
grep -q gnuplot err.txt || fail "a missing gnuplot is not explained: $(cat err.txt)"
[ ! -e none.svg ] || fail "a figure without gnuplot"
PATH=/nonexistent "$CHECKMATE" graph graph.json --plot none.svg 2> err.txt
[ $? -eq 1 ] || fail "a missing dot is not a failure"
grep -q graphviz err.txt || fail "a missing dot is not explained: $(cat err.txt)"
[ ! -e none.svg ] || fail "a figure without dot"
if command -v dot > /dev/null; then
    for format in svg pdf png; do
        expect 0 graph graph.json --plot figure.$format
        [ -s figure.$format ] || fail "figure.$format is empty"
    done
    # Its box of the forward pass, and that of the backward pass next to it.
    [ "$(grep -c '>layer8<' figure.svg)" -eq 2 ] || fail "figure.svg lacks an operator"
    [ "$(head -c 4 figure.pdf)" = %PDF ] || fail "figure.pdf is no PDF"
else
    echo "note: graphviz is not installed; figures of graphs are not checked" >&2
fi
finish
