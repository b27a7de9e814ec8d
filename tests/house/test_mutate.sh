#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The mutation script finds what it should in a sample, and its list of equivalent mutants is about code there is.
set -eu
cd "$CKM_SOURCE_DIR"
command -v python3 >/dev/null || { echo "SKIPPED: python3 is not installed"; exit 77; }

for names in "sample.c sample.txt" "sample.py sample_python.txt"; do
    set -- $names
    python3 scripts/mutate.py --list "tests/mutation/$1" | diff "tests/mutation/$2" - || {
        echo "scripts/mutate.py changes something else in tests/mutation/$1 than tests/mutation/$2 says"
        exit 1
    }
done
python3 scripts/mutate.py --check
