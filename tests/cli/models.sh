# SPDX-License-Identifier: Apache-2.0
# models and strategies: one row each, and every name usable.
. "$(dirname "$0")/lib.sh"

expect 0 models
# Real networks first; chains of many lengths are one row.
[ "$(sed -n 2p out.txt)" = "Image classification" ] || fail "first: $(sed -n 2p out.txt)"
[ "$(grep -c linear out.txt)" -eq 1 ] || fail "$(grep -c linear out.txt) rows of linear chains"
grep -q '^  linear0\.\.linear31 .* 2\.\.33 .* 4,000\.\.1,172,648 ' out.txt || fail "chains: $(grep linear out.txt)"
grep -q '^  ResNet18 ' out.txt || fail "no ResNet18"
grep -v 'linear\|^Chains\|^  test ' out.txt > without.txt
expect 0 models --all
[ "$(grep -c linear out.txt)" -eq 32 ] || fail "$(grep -c linear out.txt) rows of linear chains with --all"
grep -v 'linear\|^Chains\|^  test ' out.txt | cmp -s - without.txt || fail "--all changes other rows"
[ "$(sed -n 1p out.txt | awk '{ print $1, $2, $3, $4, $5 }')" = "network input layers parameters other" ] ||
    fail "header: $(sed -n 1p out.txt)"
# Below the header titles of groups, and rows with two blanks in front.
sed -n '/^  /p' out.txt > rows.txt
[ "$(wc -l < rows.txt)" -ge 10 ] || fail "few networks: $(wc -l < rows.txt)"
[ "$(sed 1d out.txt | grep -v '^  ' | sort | uniq -d)" = "" ] || fail "a group twice"
[ "$(sed -n 2p out.txt | cut -c1)" != " " ] || fail "networks without a group"
for group in "Image classification" Segmentation Language Diffusion; do
    grep -q "^$group\$" out.txt || fail "no group $group"
done
awk 'NF != 5 || $2 !~ /^([0-9]+x[0-9]+x[0-9]+|[0-9]+)$/ || $3 !~ /^[0-9]+$/ { print "row: " $0; bad = 1 } END { exit bad }' \
    rows.txt >&2 || fail "rows"
[ "$(awk '{ print $1 }' rows.txt | sort | uniq -d)" = "" ] || fail "a name twice"
for network in $(awk '$3 < 60 { print $1 }' rows.txt); do
    "$CHECKMATE" graph "$network" --granularity layer > out.txt 2> err.txt || fail "graph $network: $(cat err.txt)"
    layers=$(awk -v name="$network" '$1 == name { print $3 }' rows.txt)
    grep -q "^operators  *$((2 * layers + 1)) (" out.txt || fail "graph $network: not 2 x $layers + 1 operators"
done
# The default: more operators than layers have, gradients of weights among them.
"$CHECKMATE" graph VGG16 --granularity op > op.txt 2> err.txt || fail "graph VGG16 at op level: $(cat err.txt)"
"$CHECKMATE" graph VGG16 > out.txt 2> err.txt || fail "graph VGG16: $(cat err.txt)"
cmp -s op.txt out.txt || fail "--granularity op is not the default"
expect 0 graph VGG16 -o vgg16.json
grep -q '"name": "block1_conv1:grad_weight"' vgg16.json || fail "no gradient of a weight on its own"

expect 0 strategies
grep '^[^ ]' out.txt > listed.txt  # summaries go on in indented lines
while read -r strategy summary; do
    [ -n "$summary" ] || fail "strategy $strategy has no summary"
    # Known to solve: the outcome is never a usage error.
    "$CHECKMATE" solve "$data/unit_chain8.json" --budget 3 --strategy "$strategy" > /dev/null 2>&1
    [ $? -eq 3 ] || fail "strategy $strategy is listed, but cannot be given"
done < listed.txt
grep -q '^auto ' out.txt || fail "no strategy auto"

finish
