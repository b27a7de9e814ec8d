#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No Python files import each other in a circle, and rooms of the PyTorch package only those before them in the table of
# docs/ARCHITECTURE.md. The check sees circles of two and of three, those through functions and those for type checkers, and rooms out of
# order or not in the table. It parses, and needs neither PyTorch nor TensorFlow.
set -eu
command -v python3 >/dev/null || { echo "python3 is missing"; exit 77; }
cd "$CKM_SOURCE_DIR"
check=scripts/check_python_circles.py
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

rooms=$(sed -n 's/^| `torch\/\([a-z_]*\)\(\.py\|\/\)` .*/\1/p' docs/ARCHITECTURE.md | paste -sd, -)
python3 "$check" --rooms "checkmate.torch=$rooms" python/src bench bench/torch bench/tf2 bench/gpu bench/onnx examples

order=""
# planted NAME EXPECTED FILE...: files as "name: text", one folder.
planted() {
    name=$1
    expected=$2
    shift 2
    for file in "$@"; do
        path="$scratch/$name/${file%%: *}.py"
        mkdir -p "$(dirname "$path")"
        printf '%b\n' "${file#*: }" >"$path"
    done
    found=0
    python3 "$check" ${order:+--rooms "$order"} "$scratch/$name" >"$scratch/out" 2>&1 || found=$?
    [ "$found" -eq "$expected" ] || { echo "$name: expected $expected, found $found:"; cat "$scratch/out"; exit 1; }
}

planted line 0 "a: import b" "b: import c" "c: "
planted two 1 "a: import b" "b: from a import f"
planted three 1 "a: import b" "b: import c" "c: import a" "d: import a"
planted within 1 "a: def f():\n    import b" "b: import a"
planted types 1 "a: from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import b" "b: import a"
planted relative 1 "p/__init__: " "p/a: from . import b" "p/b: from .a import f"
planted inner 1 "p/__init__: " "p/a: from .q.b import f" "p/q/__init__: " "p/q/b: from .. import a"
planted front 0 "p/__init__: from .a import f" "p/a: from .b import f" "p/b: "

order=p=q,r,f
planted above 1 "p/__init__: " "p/q/__init__: " "p/r/__init__: " "p/q/a: from ..r import b" "p/r/b: " "p/f: "
planted below 0 "p/__init__: from .f import g" "p/q/__init__: " "p/r/__init__: " "p/q/a: import sys" "p/r/b: from ..q import a" "p/f: from .r import b"
planted whole 1 "p/__init__: from .f import g" "p/q/__init__: " "p/r/__init__: " "p/q/a: import p" "p/r/b: " "p/f: "
planted unknown 1 "p/__init__: " "p/q/__init__: " "p/r/__init__: " "p/f: " "p/s: "
echo "no circles of Python files"
