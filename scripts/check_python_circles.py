#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python files import each other in one direction: fails for modules in a circle of imports, and names them with the lines.

Imports within functions and those for type checkers alone count too. A package's __init__.py is a separate module: a module
of the package does not import it implicitly. Rooms of a package, which are its folders and the files next to them, have an order with
--rooms: each is in the list once, and imports only rooms before it.

Usage: check_python_circles.py [--rooms PACKAGE=ROOM,ROOM,...] FOLDER...
       each FOLDER is where imports begin, such as python/src or a folder of scripts
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

Edges = dict[str, dict[str, str]]


def modules(root: Path) -> dict[str, Path]:
    """Files by the name that they are imported by."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: dict[str, Path]) -> Iterator[tuple[str, int]]:
    """Modules among `known` that a file imports, and the line."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in known:
                    yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}".lstrip(".")
                if inner in known or base in known:
                    yield inner if inner in known else base, node.lineno


def edges(root: Path) -> Edges:
    known = modules(root)
    found: Edges = {name: {} for name in known}
    for name, path in known.items():
        for other, line in imported(name, path, known):
            if other != name:
                found[name].setdefault(other, f"{path}:{line}")
    return found


def out_of_order(files: Edges, package: str, order: list[str]) -> Iterator[str]:
    """What is wrong with the rooms of a package. Its own __init__.py is in front of all."""
    names = [name for name in files if name.startswith(package + ".")]

    def room(name: str) -> str:
        return name[len(package) + 1 :].split(".")[0]

    there = sorted({room(name) for name in names})
    if sorted(order) != there:
        yield f"rooms of {package} that are named: {', '.join(sorted(order))}; that there are: {', '.join(there)}"
        return
    for name in names:
        for other, line in files[name].items():
            if other == package or (other.startswith(package + ".") and order.index(room(other)) > order.index(room(name))):
                yield f"{name} imports {other}, which is above it: {line}"


def circles(graph: Edges) -> list[list[str]]:
    """Groups in which each reaches each, by Tarjan's algorithm. O(modules and imports)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in graph[name]:
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in order:
            visit(name)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="fails for Python modules in a circle of imports")
    parser.add_argument("--rooms", metavar="PACKAGE=ROOM,ROOM,...", help="rooms of a package, from the lowest up")
    parser.add_argument("folders", metavar="FOLDER", nargs="+", type=Path)
    options = parser.parse_args()
    package, _, order = (options.rooms or "").partition("=")
    wrong: list[str] = []
    found: Edges = {}
    for folder in options.folders:
        files = edges(folder)
        found |= files
        if not files:
            wrong.append(f"no files found in {folder}")
        wrong += [f"{name} imports {other}, in a circle: {line}"
                  for group in circles(files) for name in group for other, line in files[name].items() if other in group]  # fmt: skip
    if package:
        wrong += out_of_order(found, package, order.split(","))
    print("\n".join(wrong), end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
