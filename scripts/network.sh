# SPDX-License-Identifier: Apache-2.0
# Distinguishes a network that lacks something from a fault of this tree, by what apt, debootstrap and pip print. Sourced, not run.

# network_lacks LOG: a host or a file that should be there was not to be had: $lacking is the line that says it. What was tried again,
# and may have come then, does not count.
network_lacks() {
    lacking=$(grep -E -m 1 \
        -e '^(E|Err:?[0-9]*|W): ?.*(Failed to fetch|Could not (resolve|connect)|Temporary failure resolving|Connection (failed|timed out|refused))' \
        -e 'Hash Sum mismatch|File has unexpected size|Mirror sync in progress' \
        -e "^E: (Couldn't download|Failed getting release file|Invalid Release (file|signature))" \
        -e '^ *pip\._vendor\..*(ConnectionError|ConnectTimeoutError|ReadTimeoutError|ProtocolError)' \
        -e '^ *ERROR: Could not install packages due to an (OS|Environment)Error: .*(HTTPS?ConnectionPool|Connection (broken|aborted|reset))' \
        -e '^ *ERROR: (Could not find a version that satisfies|No matching distribution found|HTTP error [45])' "$1" 2>/dev/null)
}

# set_up_lacks LOG: the same, where scripts/setup.sh gave up, in a log with other lines.
set_up_lacks() {
    grep -q '^setup\.sh: apt-get \(update failed\|could not install them\)' "$1" && network_lacks "$1"
}
