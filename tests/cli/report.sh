# SPDX-License-Identifier: Apache-2.0
# report: pages are complete and safe with any names; figures in every format; failures leave nothing.
. "$(dirname "$0")/lib.sh"

cp "$data/unit_chain8.json" graph.json
expect 0 solve graph.json --budget 8 --strategy chen-sqrt -o schedule.json

expect 0 report graph.json schedule.json -o page.html
[ -z "$out$err" ] || fail "report talks: $out$err"
grep -q '</html>' page.html || fail "the page is not complete"
if grep -q '<!--@' page.html; then fail "a part of the page was not filled in"; fi
# Nothing that would be loaded from anywhere: no addresses but those in the data: scheme and in the licences.
if grep -oiE '(src|href)="[^"]*"|url\([^)]*\)|@import' page.html | grep -v '"data:'; then
    fail "the page loads something"
fi
if grep -q sourceMappingURL page.html; then fail "the page names source maps"; fi
expect 0 report graph.json schedule.json -o -
cmp -s out.txt page.html || fail "standard output and a file differ"

# Names that would end a script, open a tag, or quote themselves out.
hostile='</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028"\\\u0001<!--'
sed -e "s|\"layer1\"|\"$(printf '%s' "$hostile" | sed 's|[\\&|]|\\&|g; s|"|\\\\"|g')\"|g" -e 's|unit-chain-8|<b>\&amp;|' \
    graph.json > hostile.json
expect 0 solve hostile.json --budget 8 --strategy chen-sqrt -o hostile-schedule.json
expect 0 report hostile.json hostile-schedule.json -o hostile.html
[ "$(grep -o '<script' hostile.html | wc -l)" -eq "$(grep -o '<script' page.html | wc -l)" ] || fail "a name opened a script"
if grep -qi -e '<img' -e '<b>&amp;' hostile.html; then fail "a name reached the page as markup"; fi
grep -q '&lt;b&gt;&amp;amp;' hostile.html || fail "the title is not the graph's name"
expect 0 explain hostile.json hostile-schedule.json
if LC_ALL=C tr -d '\n' < out.txt | LC_ALL=C grep -q '[[:cntrl:]]'; then fail "control characters reach the terminal"; fi

# The batch, where it is known, stands in every title; a graph file does not say it.
expect 0 solve VGG16 --granularity layer --batch 3 --budget 200% --strategy checkpoint-all -o batch-schedule.json
expect 0 report VGG16 --granularity layer --batch 3 batch-schedule.json -o batch.html
grep -q '<title>.*, batch 3 ' batch.html || fail "the page does not say the batch"
if grep -q '<h1[^>]*>.*batch' page.html; then fail "the page shows a batch, which is unknown"; fi

# How training went, from its log; steps and validation of two epochs.
expect 0 train linear5 --data synthetic --samples 40 --validate 20% --input-shape 16,16,3 --batch 4 -j 1 --costs flops --budget 64MB --lr 1e-6 \
    --epochs 2 -q --log run.jsonl
[ "$(grep -c validation_loss run.jsonl)" -eq 2 ] || fail "the log has not two validations: $(cat run.jsonl)"
expect 2 report --log run.jsonl -o run.svg --figure memory
err_has "leave out --figure"
expect 2 report graph.json schedule.json --log run.jsonl -o run.svg
err_has "leave out graph.json"
expect 2 report -o run.svg
err_has "the schedule file is missing"
expect 2 report --log run.jsonl -o run.jsonl
err_has "would replace a file that is read for --log"
expect 1 report --log graph.json -o run.svg
one_error_line
err_has "graph.json: line 1: not a JSON object"
if command -v gnuplot > /dev/null; then
    for name in run.svg run.pdf run.png; do
        expect 0 report --log run.jsonl -o $name
        [ -z "$out$err" ] || fail "--log, $name: $out$err"
    done
    grep -q 'run.jsonl: loss over the steps of training' run.svg || fail "the figure does not say what it is of"
    grep -q 'least of validation' run.svg || fail "the figure lacks validation"
fi

# A missing or failing program: one line, nothing written, an old file kept.
mkdir empty
echo old > old.svg
for figure in memory arena matrices transfers graph; do
    PATH=$work/empty "$CHECKMATE" report graph.json schedule.json --figure $figure -o old.svg > out.txt 2> err.txt
    [ $? -eq 1 ] || fail "$figure without its program does not fail with 1"
    err=$(cat err.txt)
    one_error_line
    err_has "not installed"
done
[ "$(cat old.svg)" = old ] || fail "a failure changed the output file"
[ "$(find . -name '*.tmp*')" = "" ] || fail "left behind: $(find . -name '*.tmp*')"

if command -v gnuplot > /dev/null && command -v dot > /dev/null; then
    for figure in memory arena matrices transfers graph; do
        for name in hostile.svg hostile.pdf hostile.png; do
            expect 0 report hostile.json hostile-schedule.json --figure $figure -o $name
            [ -z "$out$err" ] || fail "$figure, $name: $out$err"
        done
        head -c 5 hostile.pdf | grep -q '%PDF' || fail "$figure: not a PDF"
        head -c 4 hostile.png | grep -q 'PNG' || fail "$figure: not a PNG"
        grep -q '</svg>' hostile.svg || fail "$figure: not a complete SVG"
        if grep -q '<script\|<img' hostile.svg; then fail "$figure: a name reached the figure as markup"; fi
    done
    for figure in memory arena matrices transfers graph; do
        expect 0 report VGG16 --granularity layer --batch 3 batch-schedule.json --figure $figure -o batch.svg
        grep -q ', batch 3' batch.svg || fail "$figure does not say the batch"
    done
else
    echo "note: gnuplot or graphviz is missing; drawing left out" >&2
fi
finish
