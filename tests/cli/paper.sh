# SPDX-License-Identifier: Apache-2.0
# The experiments' scripts: rows that are known are kept, lost ones come back, the page has its tables.
. "$(dirname "$0")/lib.sh"
source=${CKM_SOURCE_DIR:-$here/../..}
export CHECKMATE PAPER_DIR="$work/paper" PAPER_RESULTS="$work/results" PAPER_FIGURES="$work/figures" PAPER_DATA="$work/none"
csv=$PAPER_RESULTS/devices.csv

sh "$source/scripts/paper/devices.sh" 2> err.txt || fail "devices.sh: $(cat err.txt)"
rows=$(wc -l < "$csv")
[ "$rows" = $((2 + $(grep -c '^speed,' "$source/scripts/paper/published.csv"))) ] || fail "devices.csv has $rows lines"
cp "$csv" whole.csv

# A row that is there is not computed again, whatever its content; an incomplete one is.
sed -e '3s/,[0-9.]*,\([^,]*\)$/,12345.6,\1/' whole.csv | head -c -9 > "$csv"
sh "$source/scripts/paper/devices.sh" 2> err.txt || fail "devices.sh, again: $(cat err.txt)"
[ "$(sed -n 3p "$csv" | cut -d, -f6)" = 12345.6 ] || fail "a known row was computed again"
[ "$(sed 3d whole.csv)" = "$(sed 3d "$csv")" ] || fail "a row that was cut short did not come back"
# Asked for, it is.
sh "$source/scripts/paper/devices.sh" --again V100 2> err.txt || fail "devices.sh --again: $(cat err.txt)"
[ "$(sort whole.csv)" = "$(sort "$csv")" ] || fail "--again V100 did not bring the row back"
sh "$source/scripts/paper/devices.sh" --wrong 2> err.txt && fail "a wrong argument is accepted"

# Where git does not answer, the rows say that the commit is unknown.
mkdir -p bin
printf '#!/bin/sh\nexit 127\n' > bin/git
chmod +x bin/git
rm "$csv"
PATH=$PWD/bin:$PATH sh "$source/scripts/paper/devices.sh" 2> err.txt || fail "devices.sh without git: $(cat err.txt)"
head -n 1 "$csv" | grep -q '^# commit unknown; ' || fail "without git, the first line is $(head -n 1 "$csv")"
cp whole.csv "$csv"

# Rows of another program, of another processor, or of unknown origin are not kept.
for other in 's/program [0-9a-f]*;/program 0123456789ab;/' 's/[0-9]* processors/99 processors/' 1d; do
    sed -e "$other" -e '3s/,[0-9.]*,\([^,]*\)$/,12345.6,\1/' whole.csv > "$csv"
    sh "$source/scripts/paper/devices.sh" 2> err.txt || fail "devices.sh after $other: $(cat err.txt)"
    grep -q 'begun anew' err.txt || fail "devices.sh after $other says nothing"
    cmp -s whole.csv "$csv" || fail "devices.sh after $other kept rows that another program made"
done
# And they do not appear on a page with others.
sed -e 's/program [0-9a-f]*;/program 0123456789ab;/' whole.csv > "$PAPER_RESULTS/batches.csv"
PAPER_PAGE=$work/page.md sh "$source/scripts/paper/results.sh" 2> err.txt && fail "a page of two programs"
grep -q 'is of another program' err.txt || fail "results.sh: $(cat err.txt)"
[ ! -e page.md ] || fail "a page of two programs is written"
rm "$PAPER_RESULTS/batches.csv"

# The page: what ran, what did not, no line left to be replaced.
PAPER_PAGE=$work/page.md sh "$source/scripts/paper/results.sh" 2> err.txt || fail "results.sh: $(cat err.txt)"
grep -q '^| V100 | VGG16 | 16 | step | 83.5 ms |' page.md || fail "the page lacks the table of device models"
grep -q 'Not run yet' page.md || fail "the page does not say what has not run"
grep -q 'commit .*program [0-9a-f]\{12\}; .* processors; ' page.md || fail "the page does not say what made it"
grep -q '^@' page.md && fail "the page has lines that were not replaced"
finish
