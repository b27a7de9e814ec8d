#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that includes follow the module table below and that no cycle exists. Usage: check_includes.sh [ROOT]
# Prints one line for each violation; exit status 1 when there is any.
set -eu
root=${1:-$(dirname "$0")/..}
cd "$root"

find src include/checkmate -name '*.[ch]' | LC_ALL=C sort | xargs awk '
BEGIN {
    # module: modules whose headers, public or internal, it may include besides its own
    allow("base", "")
    allow("graph", "base")
    allow("zoo", "base graph")
    allow("import", "base graph")
    allow("autodiff", "base graph")
    allow("dataflow", "base")
    allow("cost", "base graph dataflow")
    allow("schedule", "base dataflow")
    allow("milp", "base")
    allow("solve", "base dataflow schedule milp")
    allow("plan", "base dataflow schedule")
    allow("run", "base graph dataflow schedule plan cost")
    allow("emit", "base graph dataflow schedule plan")
    allow("abi", "base cost dataflow schedule solve emit")
    allow("trainer", "base graph import autodiff dataflow cost schedule solve plan run")
    allow("ops", "base graph autodiff run")
    # The two sides of an operator, by the beginning of the file name: what plans knows no kernel, and the other way round.
    side["op"] = "base graph autodiff ops"; side["grad"] = side["op"]; side["gradients.h"] = side["op"]
    side["ref"] = "base graph run ops"; side["cpu"] = side["ref"]; side["dnnl"] = side["ref"]
    # A part of a module, a folder in it: the other parts it may include, besides what the module may. The files on top
    # may include all parts, and no part includes them.
    part("solve", "core", "")
    part("solve", "moves", "")
    part("solve", "floor", "")
    part("solve", "checkpoints", "core")
    part("solve", "chain", "core checkpoints")
    part("solve", "ilp", "core")
    part("solve", "search", "core ilp")
    part("solve", "runs", "core floor")
    part("solve", "bounds", "core search")
    part("solve", "presolve", "core")
    part("solve", "reorder", "core presolve bounds")
    part("solve", "strategies", "core checkpoints chain ilp search bounds runs")
    part("run", "backend", "")
    part("run", "cpu", "backend")
    part("run", "data", "")
    part("run", "session", "backend")
    part("run", "ranks", "backend")
    part("run", "train", "backend data session ranks")
    # The program is a client of the library: any public header, no internal one.
    known["cli"] = 1
    # Public headers that are not named like their module.
    public_module["network"] = "zoo"
    public_module["max_batch"] = "solve"
    public_module["min_budget"] = "solve"
    public_module["data"] = "run"; public_module["train"] = "run"; public_module["profile"] = "run"
    public_module["ranks"] = "run"; public_module["inference"] = "trainer"
    # Of `run`, what the kernels of an operator may include.
    kernel_part["backend"] = 1; kernel_part["cpu"] = 1
    # Libraries that only one module, or part of one, may touch, by the beginning of the header name.
    library["coin/"] = "milp"; library["Cbc_"] = "milp"; library["Clp_"] = "milp"; library["Coin_"] = "milp"
    library["protobuf-c/"] = "import"; library["onnx.pb-c.h"] = "import"
    library["oneapi/dnnl/"] = "run/cpu, ops"
    library["png.h"] = "run/data"; library["jpeglib.h"] = "run/data"
    library["cmocka.h"] = "tests"
}

function allow(module, list,    n, i, parts) {
    known[module] = 1
    n = split(list, parts, " ")
    for (i = 1; i <= n; i++) {
        allowed[module, parts[i]] = 1
    }
}

function part(module, name, list,    n, i, parts) {
    divided[module] = 1
    known_part[module, name] = 1
    n = split(list, parts, " ")
    for (i = 1; i <= n; i++) {
        # Cycles cannot be written down: what a part may include stands above it.
        if (!((module, parts[i]) in known_part)) {
            printf "scripts/check_includes.sh: %s is not above %s in the table\n", parts[i], name
            bad = 1
        }
        allowed_part[module, name, parts[i]] = 1
    }
}

function complain(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    bad = 1
}

function module_of_public(name) {
    sub(/\.h$/, "", name)
    return (name in public_module) ? public_module[name] : name
}

# The beginning of a file name, up to the first underscore.
function beginning(path,    n, parts) {
    n = split(path, parts, "/")
    split(parts[n], parts, "_")
    return parts[1]
}

# Whether a file of `ops` includes the header of a module or file that is not of its side.
function crosses(line, target,    to) {
    to = beginning(line)
    return index(" " side[own_side] " ", " " target " ") == 0 || (target == "ops" && (to in side) && side[to] != side[own_side])
}

FNR == 1 {
    files++
    split(FILENAME, path, "/")
    if (path[1] == "src") {
        module = path[2]
        folder = path[4] != "" ? path[3] : ""
        public = 0
    } else {
        module = module_of_public(path[3])
        public = 1
    }
    umbrella = module == "checkmate"
    own_side = beginning(FILENAME)
    if (module == "ops" && !(own_side in side)) {
        complain("a file of ops begins with op_, grad_, ref_, cpu_ or dnnl_")
    }
    if (!umbrella && !(module in known)) {
        complain("module " module " is not in the table of scripts/check_includes.sh")
    }
    if (module in divided && !public && folder != "" && !((module, folder) in known_part)) {
        complain("part " folder " of " module " is not in the table of scripts/check_includes.sh")
    }
}

# Anything between the words would hide a line from what follows.
/^[ \t]*(#|%:|\?\?=)/ && /include/ && !/^[ \t]*#[ \t]*include[ \t]*[<"]/ && /^[^"<]*include[ \t\/]/ {
    complain("write #include \"module/file.h\" or <checkmate/module.h>")
}

/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    line = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", line)
    quoted = substr(line, 1, 1) == "\""
    line = substr(line, 2)
    sub(/[>"].*/, "", line)
    if (line ~ /(^|\/)\.\.?(\/|$)/) {
        complain("\"" line "\" belongs to no known module: headers are named from src/, without dots")
        next
    }
    split(line, target_path, "/")
    if (!quoted && line ~ /\// && (target_path[1] in known || target_path[1] == "src")) {
        complain("write \"" line "\" from src/, not <" line ">")
        next
    }
    for (prefix in library) {
        if (index(line, prefix) == 1) {
            if ((index(", " library[prefix] ",", ", " module ",") == 0 && index(", " library[prefix] ",", ", " module "/" folder ",") == 0) || (module == "ops" && side[own_side] !~ / run /)) {
                complain("<" line "> may only be included by " library[prefix] ", not by " module)
            }
            next
        }
    }
    if (line ~ /^checkmate\//) {
        name = substr(line, 11)
        target = module_of_public(name)
        if (quoted) {
            complain("write <" line ">, not \"" line "\"")
        }
        if (umbrella || module == "cli") {
            next
        }
        if (target == "checkmate") {
            complain("the library itself must not include <checkmate/checkmate.h>")
            next
        }
    } else if (quoted) {
        if (public) {
            complain("a public header must not include the internal \"" line "\"")
            next
        }
        if (line !~ /\//) {
            complain("write \"" module "/" line "\": internal headers are named from src/")
            next
        }
        split(line, target_path, "/")
        target = target_path[1]
        target_folder = target_path[3] != "" ? target_path[2] : ""
        if (module == "cli" && target != "cli") {
            complain("the program may only include public headers, not \"" line "\"")
            next
        }
    } else {
        next
    }
    if (module == "ops" && (own_side in side) && crosses(line, target)) {
        complain(FILENAME " is on the other side of an operator than \"" line "\"")
        next
    }
    if (module == "ops" && target == "run" && quoted && !(target_folder in kernel_part)) {
        complain("a kernel must not include \"" line "\"")
        next
    }
    if (target == module) {
        if (quoted && module in divided && folder != "" && folder != target_folder &&
            !((module, folder, target_folder) in allowed_part)) {
            complain(module "/" folder " must not include \"" line "\"")
        }
        next
    }
    if (!(target in known)) {
        complain("\"" line "\" belongs to no known module")
    } else if (!((module, target) in allowed)) {
        complain(module " must not include " target " (\"" line "\")")
    }
    used[module, target] = 1
}

# Depth-first: state 1 is on the path, 2 is done.
function visit(m,    t) {
    state[m] = 1
    for (t in known) {
        if (!((m, t) in used) && !((m, t) in allowed)) {
            continue
        }
        if (state[t] == 1) {
            printf "include cycle: %s and %s reach each other\n", m, t
            bad = 1
        } else if (state[t] != 2) {
            visit(t)
        }
    }
    state[m] = 2
}

END {
    for (m in known) {
        if (state[m] == 0) {
            visit(m)
        }
    }
    if (files == 0) {
        print "no source files found"
        bad = 1
    }
    exit bad ? 1 : 0
}'
