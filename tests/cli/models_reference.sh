# SPDX-License-Identifier: Apache-2.0
# The zoo's inputs, layers and parameters are those of the reference list.
. "$(dirname "$0")/lib.sh"

[ -r "$shared/zoo/totals.csv" ] || skip "$shared/zoo/totals.csv is not there"
expect 0 models --all
sed -n '/^  /p' out.txt > rows.txt
# The list gives layers, trained and other parameters by name; names with @ are at another input shape.
tr -d ',' < rows.txt | awk '
    FNR == NR { sub(/\r$/, ""); split($0, f, ","); reference[f[1]] = f[2] " " f[3] " " f[4] " " f[5]; next }
    $1 in reference {
        n++
        if (reference[$1] != $2 " " $3 " " $4 " " $5) { print $0 ": reference " reference[$1]; bad = 1 }
    }
    END { if (n < 10) { print "only " n " networks compared"; bad = 1 } exit bad }' "$shared/zoo/totals.csv" - >&2 ||
    fail "counts differ from the reference"
finish
