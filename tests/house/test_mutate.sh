#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The mutation script finds what it should in a sample, and its list of equivalent mutants is about code there is.
set -eu
cd "$CKM_SOURCE_DIR"
command -v python3 >/dev/null || { echo "SKIPPED: python3 is not installed"; exit 77; }

python3 scripts/mutate.py --list tests/mutation/sample.c | diff tests/mutation/sample.txt - || {
    echo "scripts/mutate.py changes something else in tests/mutation/sample.c than tests/mutation/sample.txt says"
    exit 1
}
python3 scripts/mutate.py --check
