# SPDX-License-Identifier: Apache-2.0
"""Graphs for tests."""

from checkmate import Graph


def chain(layers: int) -> Graph:
    """The training graph of a chain of layers, unit costs and sizes: layers forward, a loss, layers backward."""
    graph = Graph(f"chain{layers}")
    values = [graph.tensor(bytes=1, name=f"t{i}") for i in range(2 * layers + 1)]
    for i in range(layers):
        graph.op(name=f"f{i}", cost=1, inputs=values[i - 1 : i] if i else [], outputs=[values[i]])
    graph.op(name="loss", cost=1, kind="loss", inputs=[values[layers - 1]], outputs=[values[layers]])
    for k in range(layers):
        i = layers - 1 - k
        operands = [values[layers + k], values[i], *([values[i - 1]] if i else [])]
        graph.op(name=f"b{i}", cost=1, kind="backward", inputs=operands, outputs=[values[layers + k + 1]])
    graph.result(values[2 * layers])
    return graph.finish()


def branches() -> Graph:
    """Two branches of 8 and then 3 bytes, joined at the end: 11 bytes for the largest operator, 14 with what waits meanwhile."""
    graph = Graph("branches")
    a, b, c, d, e = (graph.tensor(bytes=size, name=name) for name, size in zip("abcde", (8, 3, 8, 3, 1), strict=True))
    for inputs, output in (([], a), ([a], b), ([], c), ([c], d), ([b, d], e)):
        graph.op(cost=1, inputs=inputs, outputs=[output])
    graph.result(e)
    return graph.finish()
