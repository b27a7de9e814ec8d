# SPDX-License-Identifier: Apache-2.0
# report: pages are complete and safe whatever the names; figures in every format; failures leave nothing.
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

# A missing or failing program: one line, nothing written, an old file kept.
mkdir empty
echo old > old.svg
for figure in memory arena matrices graph; do
    PATH=$work/empty "$CHECKMATE" report graph.json schedule.json --figure $figure -o old.svg > out.txt 2> err.txt
    [ $? -eq 1 ] || fail "$figure without its program does not fail with 1"
    err=$(cat err.txt)
    one_error_line
    err_has "not installed"
done
[ "$(cat old.svg)" = old ] || fail "a failure changed the output file"
[ "$(find . -name '*.tmp*')" = "" ] || fail "left behind: $(find . -name '*.tmp*')"

if command -v gnuplot > /dev/null && command -v dot > /dev/null; then
    for figure in memory arena matrices graph; do
        for name in hostile.svg hostile.pdf hostile.png; do
            expect 0 report hostile.json hostile-schedule.json --figure $figure -o $name
            [ -z "$out$err" ] || fail "$figure, $name: $out$err"
        done
        head -c 5 hostile.pdf | grep -q '%PDF' || fail "$figure: not a PDF"
        head -c 4 hostile.png | grep -q 'PNG' || fail "$figure: not a PNG"
        grep -q '</svg>' hostile.svg || fail "$figure: not a complete SVG"
        if grep -q '<script\|<img' hostile.svg; then fail "$figure: a name reached the figure as markup"; fi
    done
else
    echo "note: gnuplot or graphviz is missing; drawing left out" >&2
fi
finish
