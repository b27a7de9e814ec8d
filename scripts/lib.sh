# SPDX-License-Identifier: Apache-2.0
# What the scripts share that run the program and put tables into docs/. Sourced, not run.

# need_program PATH: it is built.
need_program() {
    if [ ! -x "$1" ]; then
        echo "$(basename "$0" .sh): $1 is not there; run 'make' first, or set CHECKMATE" >&2
        exit 1
    fi
}

# value KEY [FILE]: a member of a JSON object, from standard input without FILE; empty for null.
value() {
    sed -n 's/.*"'"$1"'": \("[^"]*"\|[^,}]*\).*/\1/p' ${2+"$2"} | tr -d '"' | sed 's/^null$//'
}

# into_page NAME TABLE PAGE: what stands in PAGE between the marks "<!-- NAME: begin" and "<!-- NAME: end" becomes TABLE.
into_page() {
    awk -v table="$2" -v begin="^<!-- $1: begin" -v end="^<!-- $1: end" '
        $0 ~ begin { print; while ((getline text < table) > 0) print text; skip = 1; next }
        $0 ~ end { skip = 0 }
        !skip' "$3" > "$2.page"
    cp "$2.page" "$3"
    rm -f "$2.page"
}
