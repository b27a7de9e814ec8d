# SPDX-License-Identifier: Apache-2.0
"""Frozen weights as calls that read them.

A weight that lies in the second memory (offload/weights.py) is no tensor that is there all the time. What reads it in a joint graph reads
instead what a call `load` gives, which can be made again whenever it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import fx

from ..fx import dataflow
from ..offload import calls
from ..offload.weights import Weights

#: In the metadata of calls of the model: where they are written, which loads take over from their first reader.
_PLACES = ("nn_module_stack", "stack_trace", "partitioner_tag", "custom")


def apply(module: fx.GraphModule, num_fwd_outputs: int, weights: Weights, names: Mapping[int, str]) -> None:
    """`names`: of the joint graph's inputs that lie in the second memory, by their numbers. O(nodes)."""
    graph = module.graph
    position = {node: i for i, node in enumerate(graph.nodes)}
    inputs = [node for node in graph.nodes if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)]
    wanted = {node: names[idx] for node in inputs if (idx := getattr(node.meta.get("desc"), "idx", -1)) in names}
    changed = set(dataflow.mutated_inputs(module, num_fwd_outputs))
    *_nodes, output = graph.nodes
    given = [value for node in output.all_input_nodes for value in dataflow.tensors(node.meta.get("val")) if value is not None]
    others = [node.meta["val"] for node in inputs if node not in wanted or node in changed]
    stays = {dataflow.storage_key(value) for value in [*given, *others]}
    groups: dict[int, list[fx.Node]] = {}  # those that share a storage, which they fill
    for node in wanted:
        groups.setdefault(dataflow.storage_key(node.meta["val"]), []).append(node)
    for key, nodes in groups.items():
        value = nodes[0].meta["val"]
        alike = all((v.dtype, v.shape, v.stride()) == (value.dtype, value.shape, value.stride()) for v in (node.meta["val"] for node in nodes))
        if key in stays or not alike:
            continue
        for node in nodes:
            node.meta[dataflow.AWAY] = True
        readers = [user for node in nodes for user in node.users]
        if not readers:
            continue
        first = min(readers, key=position.__getitem__)
        with graph.inserting_before(first):
            load = graph.create_node("call_function", calls.load, (weights, nodes[0]), name=f"load_{wanted[nodes[0]]}")  # type: ignore[arg-type]
        load.meta = {key: first.meta[key] for key in _PLACES if key in first.meta}
        load.meta["val"] = value  # its views are traced with that, and nothing reads the weight itself any more
        for node in nodes:
            node.replace_all_uses_with(load, lambda user, load=load: user is not load)  # type: ignore[misc]
