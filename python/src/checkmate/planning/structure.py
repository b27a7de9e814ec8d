# SPDX-License-Identifier: Apache-2.0
"""What names a graph: with all that it says, or only by what is the same wherever and whenever a step is traced."""

from __future__ import annotations

import hashlib

from ..graph import Graph


def digest(graph: Graph, *beside: object) -> str:
    """Of operators, tensors and results, but of nothing that is measured; and of what else is given."""
    ops = [(op.name, op.recomputable, op.inputs, op.outputs, op.inplace) for op in graph.ops]
    return _digest(repr((ops, [(t.bytes, t.alias_of) for t in graph.tensors], graph.results, *beside)))


def digest_with_costs(graph: Graph) -> str:
    """Of all that a plan may depend on."""
    return _digest(graph.to_json(places=False))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
