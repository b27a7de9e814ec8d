# SPDX-License-Identifier: Apache-2.0
"""What `torch.utils.checkpoint` around every block of a model would do, as a schedule of the same graph.

A block is what stands in a list of modules and has modules of its own: `layers.3`, `layer2.0`; of nested ones the outermost.
Its inputs and outputs are kept. All else it makes is dropped after the forward pass and made again, the block as a whole up to
the last value needed, when its backward pass begins. Operators that must not run twice keep their results.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...graph import Graph, Op
from ...schedule import Schedule, Step


@dataclass(frozen=True)
class Checkpointed:
    """The schedule, its peak and cost, and the blocks in the order in which they run."""

    schedule: Schedule
    peak_bytes: int
    cost: int
    blocks: list[str]


def block_of(module: str) -> str:
    """The path up to its first number; "" where there is none."""
    parts = module.split(".")
    number = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    return "" if not number else ".".join(parts[: number + 1])


def find(ops: list[Op]) -> list[str]:
    """The blocks among the modules of forward operators, in order; none of a list with a single one."""
    forward = [op for op in ops if op.kind == "forward"]
    found = dict.fromkeys(block_of(op.module) for op in forward)
    nested = {block_of(op.module) for op in forward if op.module != block_of(op.module)}
    lists: dict[str, int] = {}
    for name in found:
        lists[name.rpartition(".")[0]] = lists.get(name.rpartition(".")[0], 0) + (name in nested)
    return [name for name in found if name in nested and lists[name.rpartition(".")[0]] > 1]


def checkpointed(graph: Graph) -> Checkpointed | None:
    """Every block checkpointed; None where the model has no blocks. O(operands)."""
    ops, tensors = graph.ops, graph.tensors
    blocks = find(ops)
    if not blocks:
        return None
    known = set(blocks)
    block = [name if op.kind == "forward" and (name := block_of(op.module)) in known else "" for op in ops]
    storage = [t.alias_of if t.alias_of >= 0 else i for i, t in enumerate(tensors)]
    dropped = _dropped(graph, ops, block, storage)

    maker = {t: v for v, op in enumerate(ops) for t in op.outputs}
    back = {v for v, op in enumerate(ops) if op.kind in ("backward", "update")}

    def lost(v: int) -> list[int]:
        """The forward operators behind what a backward operator reads that was dropped."""
        return [maker[t] for t in ops[v].inputs if storage[t] in dropped and maker[t] not in back]

    last: dict[str, int] = {}  # the last operator of a block that the backward pass needs again
    for v in sorted(back):
        for u in lost(v):
            last[block[u]] = max(last.get(block[u], u), u)
    again = {
        name: [v for v in range(end + 1) if block[v] == name and ops[v].recomputable and any(storage[t] in dropped for t in ops[v].outputs)]
        for name, end in last.items()
    }
    order: list[int] = []
    for v in range(len(ops)):
        if v in back:
            for name in dict.fromkeys(block[u] for u in lost(v)):
                order += again.pop(name, [])
        order.append(v)
    schedule = Schedule(_with_frees(graph, ops, order))
    simulated = schedule.simulate(graph)
    return Checkpointed(schedule, simulated.peak_bytes, simulated.cost, blocks)


def _dropped(graph: Graph, ops: list[Op], block: list[str], storage: list[int]) -> set[int]:
    """Storages that one block makes, that no forward operator outside of it reads, and that are no results."""
    users: dict[int, set[str]] = {}
    for v, op in enumerate(ops):
        if op.kind in ("forward", "loss"):
            for t in op.outputs:
                users.setdefault(storage[t], set()).add(block[v] if op.recomputable else "")
            for t in op.inputs:
                users.setdefault(storage[t], {""}).add(block[v])  # a tensor that nothing made is an input
        else:
            for t in op.outputs:
                users.setdefault(storage[t], {""})
    results = {storage[t] for t in graph.results}
    return {s for s, names in users.items() if len(names) == 1 and "" not in names and s not in results}


def _with_frees(graph: Graph, ops: list[Op], order: list[int]) -> list[Step]:
    """The steps of an order of operators. A tensor is freed after its last use, or the last before it is made again."""
    results = set(graph.results)
    uses: dict[int, list[int]] = {}
    made: dict[int, list[int]] = {}
    for at, v in enumerate(order):
        for t in ops[v].inputs:
            uses.setdefault(t, []).append(at)
        for t in ops[v].outputs:
            made.setdefault(t, []).append(at)
    frees: list[list[int]] = [[] for _ in order]
    for t, begins in made.items():
        if t in results:
            continue
        read = uses.get(t, [])
        for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
            frees[max([begin, *(at for at in read if begin < at < end)])].append(t)
    return [step for at, v in enumerate(order) for step in (Step("compute", v), *(Step("free", t) for t in frees[at]))]
