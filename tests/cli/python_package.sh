#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests of the Python package, against the library just built. Those that need PyTorch skip themselves without it.
set -eu
for python in "${CKM_PYTHON:-}" /usr/bin/python3 python3; do
    if [ -n "$python" ] && "$python" -c 'import pytest' 2>/dev/null; then
        export CHECKMATE_LIBRARY="$CKM_BINARY_DIR/libcheckmate.so" PYTHONPATH="$CKM_SOURCE_DIR/python/src" PYTHONDONTWRITEBYTECODE=1
        exec "$python" -m pytest -rs -p no:cacheprovider "$CKM_SOURCE_DIR/python/tests"
    fi
done
echo "SKIP: no Python 3 with pytest (Debian package python3-pytest)"
exit 77
