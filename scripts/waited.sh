# SPDX-License-Identifier: Apache-2.0
# Long commands that end at once when their script is told to. Sourced, not run.
running=""

# waited PROGRAM...: in a session of its own and in the background, since a shell heeds a signal only between commands.
waited() {
    setsid "$@" &
    running=$!
    status=0
    wait "$running" || status=$?
    running=""
    return "$status"
}

# stop_waited: ends the program and all that it has started; for the trap on EXIT.
stop_waited() {
    [ -z "$running" ] || kill -KILL -- "-$running" 2>/dev/null || true
}
