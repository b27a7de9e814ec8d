# SPDX-License-Identifier: Apache-2.0
# To be sourced: a python that has a module, and the package and library of this tree in its environment.

# find_python MODULE NAME VARIABLE: sets $python to the one that VARIABLE names, else to the first that has the module. If there is
# none, says so and exits with 77. $root is the top of the tree, $here the script's folder.
find_python() {
    script=${here#"$root"/}/$(basename "$0")
    eval "wanted=\${$3:-}"
    if [ -n "$wanted" ]; then
        # It was set on purpose, so no other one is tried.
        python=$wanted
        if ! command -v "$wanted" >/dev/null 2>&1; then
            wrong="does not exist, or is no program"
        else
            case $(python_with "$wanted" "$1") in
            yes) wrong="" ;;
            no) wrong="has no $2" ;;
            *) wrong="does not run as a Python" ;;
            esac
        fi
        if [ -n "$wrong" ]; then
            echo "$script: skipped: $3=$wanted $wrong" >&2
            exit 77
        fi
    else
        python=""
        for candidate in python3 /usr/bin/python3; do
            if [ "$(python_with "$candidate" "$1")" = yes ]; then
                python=$candidate
                break
            fi
        done
        if [ -z "$python" ]; then
            echo "$script: skipped: neither python3 nor /usr/bin/python3 has $2; set $3 to a python that has it" >&2
            exit 77
        fi
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

# python_with PYTHON MODULE: prints yes or no; nothing if it is no Python. A mere folder of that name, such as bench/torch, has no origin.
python_with() {
    "$1" -c "import importlib.util; spec = importlib.util.find_spec('$2'); print('yes' if spec and spec.origin else 'no')" 2>/dev/null || true
}
