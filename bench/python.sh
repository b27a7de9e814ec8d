# SPDX-License-Identifier: Apache-2.0
# To be sourced: a python that has a module, and the package and library of this tree in its environment.

# find_python MODULE NAME VARIABLE: sets $python to the one that VARIABLE names, or the first that has the module; else
# says what was skipped and exits with 77. $root is the top of the tree.
find_python() {
    python=""
    eval "wanted=\${$3:-}"
    for candidate in "$wanted" python3 /usr/bin/python3; do
        if [ -n "$candidate" ] && "$candidate" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)" >/dev/null 2>&1; then
            python=$candidate
            break
        fi
    done
    if [ -z "$python" ]; then
        echo "bench/$1: skipped: no python with $2; set $3 to one that has it"
        exit 77
    fi
    for candidate in "$root"/build/libcheckmate.so "$root"/build/release/libcheckmate.so; do
        if [ -z "${CHECKMATE_LIBRARY:-}" ] && [ -e "$candidate" ]; then
            CHECKMATE_LIBRARY=$candidate
            export CHECKMATE_LIBRARY
        fi
    done
    PYTHONPATH=$root/python/src${PYTHONPATH:+:$PYTHONPATH}
    PYTHONDONTWRITEBYTECODE=1
    export PYTHONPATH PYTHONDONTWRITEBYTECODE
}
