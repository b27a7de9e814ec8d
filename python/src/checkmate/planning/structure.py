# SPDX-License-Identifier: Apache-2.0
"""Digests of a graph: of all its content, or only of the part that does not depend on where and when a step is traced."""

from __future__ import annotations

import hashlib

from ..graph import Graph


def digest(graph: Graph, *more: object) -> str:
    """Of operators, tensors and results, without measured values; and of `more`."""
    ops = [(op.name, op.recomputable, op.inputs, op.outputs, op.inplace) for op in graph.ops]
    return _digest(repr((ops, [(t.bytes, t.alias_of) for t in graph.tensors], graph.results, *more)))


def digest_with_costs(graph: Graph) -> str:
    """Of everything that a plan may depend on."""
    return _digest(graph.to_json(places=False))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
