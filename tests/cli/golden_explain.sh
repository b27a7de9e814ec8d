# SPDX-License-Identifier: Apache-2.0
# explain and report on the unit chain of 8 layers: what is said, how the graph is found, what is refused.
. "$(dirname "$0")/lib.sh"

cp "$data/unit_chain8.json" graph.json
expect 0 solve graph.json --budget 8 --strategy chen-sqrt -o schedule.json
expect 0 explain graph.json schedule.json
[ "$(wc -l < out.txt)" -le 40 ] || fail "explain takes $(wc -l < out.txt) lines"
cp out.txt told.txt
# The graph is found next to the schedule, among others and under any name.
sed 's/"bytes": 1/"bytes": 2/' graph.json > another.json
echo '{"format": "checkmate-graph"' > broken.json
mkdir sub
mv graph.json sub/zz.json
cp another.json broken.json schedule.json sub
expect 0 explain sub/schedule.json
cmp -s told.txt out.txt || fail "with the graph found, explain says something else"
mv sub/zz.json graph.json

# Without rematerialization there is nothing to tell of it.
expect 0 solve graph.json --budget 17 --strategy checkpoint-all -o all.json
expect 0 explain graph.json all.json

# Refused: no graph, another graph's schedule, an illegal schedule, wrong usage. No figure is begun.
mkdir alone
cp schedule.json alone
expect 1 explain alone/schedule.json
one_error_line
expect 1 explain another.json schedule.json
one_error_line
expect 1 report broken.json schedule.json -o page.html
one_error_line
sed '/^  \["compute", 0\],$/d' schedule.json > illegal.json
expect 1 report graph.json illegal.json -o page.html
one_error_line
expect 2 report graph.json schedule.json
expect 2 report graph.json schedule.json -o x.svg --figure memery
expect 2 explain
expect 2 report - - -o page.html
expect 1 report graph.json schedule.json -o x.jpg --figure memory
[ ! -e page.html ] && [ ! -e x.jpg ] && [ ! -e x.svg ] || fail "something was written: $(ls)"
golden explain
finish
