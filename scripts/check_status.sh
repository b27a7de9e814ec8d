#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A failing call's status travels by CKM_I_CHECK or CKM_I_TRY (src/base/error.h): finds their expansion written out in
# the library, early returns and jumps, and chains, loops and ?: that continue while a local `status` is CKM_OK. Where more
# is done than that, none of these matches. Skeletons count, since files are copied from them.
# Usage: check_status.sh [ROOT]. Prints one line for each violation; exit status 1 when there is any.
set -eu
root=${1:-$(dirname "$0")/..}
cd "$root"

find src \( -name '*.c' -o -name '*.c.in' \) ! -path 'src/cli/*' | LC_ALL=C sort | xargs awk '
function complain(line, what) { print FILENAME ":" line ": " what; bad = 1 }
FNR == 1 { place = "" }
# An if, then one statement, then nothing more.
place == "end" { if ($0 ~ /^ *\}$/) { complain(began, said) }; place = "" }
place == "statement" { if ($0 ~ /;$/) { place = "end" }; next }
place == "fails" {
    place = ""
    if ($0 ~ /^ *return status;$/) { place = "end"; said = "an early return of status: CKM_I_CHECK" }
    if ($0 ~ /^ *goto cleanup;$/) { place = "end"; said = "a jump to cleanup: CKM_I_TRY" }
    if (place == "end") { next }
}
place == "goes on" {
    place = ""
    if ($0 ~ /^ *status = /) {
        place = $0 ~ /;$/ ? "end" : "statement"
        said = "a chain of if (status == CKM_OK): CKM_I_CHECK or CKM_I_TRY"
        next
    }
}
/^ *if \(status != CKM_OK\) \{$/ { place = "fails"; began = FNR }
/^ *if \(status == CKM_OK( && .*)?\) \{$/ { place = "goes on"; began = FNR }
/^ *(for|while) \((.*[^A-Za-z_>.*])?status == CKM_OK/ { complain(FNR, "a loop while status is CKM_OK: CKM_I_CHECK or CKM_I_TRY") }
/(^|[^A-Za-z_>.*])status == CKM_OK .*\?.* : status;$/ { complain(FNR, "status or the next call by ?: CKM_I_CHECK or CKM_I_TRY") }
END { exit bad }'
