# SPDX-License-Identifier: Apache-2.0
# Long commands that end at once when their script is told to. Sourced, not run.
running=""

# waited COMMAND...: in the background, since a shell heeds a signal only between commands. A program that starts others goes behind
# setsid: stop_waited then ends all of them.
waited() {
    "$@" &
    running=$!
    status=0
    wait "$running" || status=$?
    running=""
    return "$status"
}

# stop_waited: ends the command, if one runs; for the trap on EXIT.
stop_waited() {
    [ -n "$running" ] || return 0
    # -s: with "-KILL --" dash takes no group.
    kill -s KILL -- "-$running" 2>/dev/null || kill -s KILL "$running" 2>/dev/null || true
    wait "$running" 2>/dev/null || true
    # Those that it has started are killed, but may not be gone yet, and what they still write would be in the way of cleaning up.
    tries=0
    while kill -s 0 -- "-$running" 2>/dev/null && [ "$tries" -lt 50 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}
