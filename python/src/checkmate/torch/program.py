# SPDX-License-Identifier: Apache-2.0
"""A graph as a Python function that gives up every value at its last use, its arguments included.

The arguments come as one list, which is emptied ("boxed" calls): else the caller's references would keep the tensors
saved for the backward pass alive until its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx


def last_uses(graph: fx.Graph) -> dict[fx.Node, list[fx.Node]]:
    """For each node, what is used by it for the last time; a value that nothing uses dies where it is made."""
    dying: dict[fx.Node, list[fx.Node]] = {}
    seen: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        for value in [*node.all_input_nodes, node]:
            if value not in seen and node.op != "output":
                dying.setdefault(node, []).append(value)
            seen.add(value)
    return dying


def compile_boxed(module: fx.GraphModule) -> Callable[[list[Any]], tuple[Any, ...]]:
    """A function of one list. O(nodes)."""
    constants: dict[str, Any] = {}
    names: dict[fx.Node, str] = {}

    def constant(value: object) -> str:
        name = f"c{len(constants)}"
        constants[name] = value
        return name

    def text(value: object) -> str:
        if isinstance(value, fx.Node):
            return names[value]
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        if isinstance(value, tuple) and type(value) is tuple:
            return "(" + "".join(text(v) + ", " for v in value) + ")"
        if isinstance(value, list):
            return "[" + ", ".join(text(v) for v in value) + "]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k!r}: {text(v)}" for k, v in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({text(value.start)}, {text(value.stop)}, {text(value.step)})"
        return constant(value)

    dying = last_uses(module.graph)
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    for i, node in enumerate(module.graph.nodes):
        names[node] = f"v{i}"
    lines = ["def run(arguments):"]
    if inputs:
        lines.append("    " + "".join(names[n] + ", " for n in inputs) + "= arguments")
    lines.append("    arguments.clear()")
    for node in module.graph.nodes:
        if node.op == "call_function":
            arguments = [text(a) for a in node.args] + [f"{k}={text(v)}" for k, v in node.kwargs.items()]
            lines.append(f"    {names[node]} = {constant(node.target)}({', '.join(arguments)})")
        elif node.op == "get_attr":
            owner: Any = module
            for part in str(node.target).split("."):
                owner = getattr(owner, part)
            lines.append(f"    {names[node]} = {constant(owner)}")
        elif node.op == "output":
            lines.append(f"    return {text(tuple(node.args[0]))}")
        dead = [names[n] for n in dying.get(node, ())]
        if dead:
            lines.append("    del " + ", ".join(dead))
    exec(compile("\n".join(lines), "<checkmate schedule>", "exec"), constants)  # noqa: S102 - text made above from the graph
    run: Callable[[list[Any]], tuple[Any, ...]] = constants["run"]
    run._boxed_call = True  # type: ignore[attr-defined]
    return run
