# SPDX-License-Identifier: Apache-2.0
"""The transfers of a schedule as calls in the forward and the backward graph.

What moves is a storage, with all tensors on it: they come back as they were. A storage that leaves in one pass and comes back in the
other has a ticket among what is saved (offload/calls.py); one that is on its way between the passes is saved, and waited for in the
backward pass.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import fx

from ...schedule import Schedule, Step
from ..offload import calls
from .dataflow import REAL_BYTES, Joint, is_tangent


class Side(Protocol):
    """What moves ask of one of the two graphs while it is written: see partition.py. `home`: for each node of the joint graph, a number
    of the memory that its value lies in; what was made later has a larger one."""

    graph: fx.Graph
    value: dict[fx.Node, fx.Node]
    borrowed: set[fx.Node]
    home: dict[fx.Node, int]

    def new_home(self) -> int: ...
    def call(self, node: fx.Node, new: fx.Node) -> None: ...


class Moves:
    """Those of one schedule. `steps`: its computations and transfers, without those that need not be done: of a storage that never comes back,
    or that nothing in the graph stands for, such as a generator's state."""

    def __init__(self, joint: Joint, schedule: Schedule) -> None:
        self.joint, self.store = joint, joint.store
        self.steps = [step for step in schedule.steps if step.kind == "compute"]
        self._live: dict[int, list[fx.Node]] = {}  # when a storage begins to leave
        self._at_wait: dict[int, list[fx.Node]] = {}  # when its copy is waited for
        self._tickets: dict[int, fx.Node] = {}
        self._coming: dict[int, fx.Node] = {}
        self._members: dict[int, list[fx.Node]] = {}
        self._homes: dict[int, int] = {}
        self._weights: dict[int, fx.Node] = {}  # by its tensor, the call that reads a frozen weight
        if len(self.steps) + sum(step.kind == "free" for step in schedule.steps) < len(schedule.steps):
            self._look_at(schedule)

    def _look_at(self, schedule: Schedule) -> None:
        tensors = self.joint.graph.tensors
        roots = [i if t.alias_of < 0 else t.alias_of for i, t in enumerate(tensors)]
        self._bytes = [t.bytes for t in tensors]
        self._nodes: dict[int, list[fx.Node]] = {}
        for node, tensor in self.joint.tensor_of.items():
            self._nodes.setdefault(roots[tensor], []).append(node)
        self._weights = {op.outputs[0]: op.node for op in self.joint.ops if op.node is not None and op.node.target is calls.load}
        back = {step.index for step in schedule.steps if step.kind == "in"}
        live: set[int] = set()
        moved: dict[int, list[int]] = {}
        ops = self.joint.graph.ops

        def standing(x: int) -> list[fx.Node]:
            nodes = [node for node in self._nodes.get(x, []) if self.joint.tensor_of[node] in live]
            return nodes if all(_plain(node) for node in nodes) else []

        self.steps = []
        for step in schedule.steps:
            if step.kind == "compute":
                live.difference_update(operand for operand, _result in step.inplace)
                live.update(ops[step.index].outputs)
            elif step.kind == "free":
                live.discard(step.index)
                continue
            elif step.kind == "out":
                moved[step.index] = [t for t in live if roots[t] == step.index]
                if step.index in back:
                    self._live[step.index] = standing(step.index)
            elif step.kind == "wait_out":
                self._at_wait[step.index] = standing(step.index)
            elif step.kind == "wait_in":
                live.update(moved.get(step.index, [step.index]))
            if step.kind == "compute" or self._live.get(step.index) or self._loads(step):
                self.steps.append(step)

    def _loads(self, step: Step) -> bool:
        """Whether a step is of a transfer that reads a weight, which is never moved out."""
        return step.kind in ("in", "wait_in") and step.index in self._weights

    def reads(self, step: Step) -> list[fx.Node]:
        """What a transfer reads of a graph; with what is to be there already, what it brings."""
        if self._loads(step):
            return [_weight(self._weights[step.index])] if step.kind == "in" else []
        of = {"out": self._live, "wait_out": self._at_wait}.get(step.kind, {})
        return [node for node in of.get(step.index, []) if not is_tangent(node)]

    def brings(self, step: Step) -> list[fx.Node]:
        if step.kind != "wait_in":
            return []
        return [self._weights[step.index]] if self._loads(step) else self._live[step.index]

    def crossing(self, cut: int) -> tuple[list[int], list[int]]:
        """Storages whose tickets the backward pass needs, and those that are on their way back when it begins. `cut`: the step between."""
        before = {kind: {s.index for s in self.steps[:cut] if s.kind == kind} for kind in ("out", "in", "wait_in")}
        after = [s for s in self.steps[cut + 1 :] if s.kind in ("in", "wait_in", "wait_out")]
        tickets = dict.fromkeys(s.index for s in after if s.index in before["out"])
        seen: set[int] = set()
        arriving: list[int] = []
        for step in after:
            if step.kind == "wait_in" and step.index not in seen:
                arriving.append(step.index)
            if step.kind in ("in", "wait_in"):
                seen.add(step.index)
        return list(tickets), arriving

    def saved(self, tickets: list[int], arriving: list[int]) -> list[fx.Node]:
        """The nodes of the forward graph for what crosses."""
        return [*(self._tickets[x] for x in tickets), *(self._coming[x] for x in arriving)]

    def enter(self, side: Side, tickets: list[int], arriving: list[int]) -> None:
        """Placeholders of the backward graph for them."""
        for of, names in ((self._tickets, tickets), (self._coming, arriving)):
            for x in names:
                new = side.graph.placeholder(f"{of[x].name}_saved")
                new.meta = dict(of[x].meta)
                of[x] = new

    def emit(self, side: Side, step: Step) -> None:
        if self._loads(step):
            (self._begin_load if step.kind == "in" else self._wait_load)(side, step.index)
            return
        {"out": self._out, "wait_out": self._wait_out, "in": self._in, "wait_in": self._wait_in}[step.kind](side, step.index)

    def _out(self, side: Side, x: int) -> None:
        self._members[x] = members = list(self._current(side, x))
        ticket = side.graph.call_function(calls.begin_out, (self.store, *(side.value[m] for m in members)))  # type: ignore[arg-type]
        with members[0].meta["val"].fake_mode:
            ticket.meta["val"] = torch.empty(1, dtype=torch.int64)
        self._tickets[x] = ticket
        self._homes[x] = len({side.home[m] for m in members})

    def _current(self, side: Side, x: int) -> Iterator[fx.Node]:
        """The nodes on the storage, those that must be moved and those that lie in the same memory. A view of memory that its tensor no longer
        has, because that was computed again, is made anew."""
        live = self._live[x]
        newest, found = max(side.home[node] for node in live), set[fx.Node]()
        for node in self._nodes[x]:
            if node not in side.value or not _plain(node):
                continue
            if side.home[node] != newest and node in live and any(parent in found for parent in node.all_input_nodes):
                side.call(node, side.graph.node_copy(node, lambda n: side.value[n]))
            if side.home[node] == newest or node in live:
                found.add(node)
                yield node

    def _wait_out(self, side: Side, x: int) -> None:
        values = [side.value[node] for node in self._at_wait[x] if node in side.value]
        side.graph.call_function(calls.wait_out, (self._tickets[x], *values)).meta["val"] = None

    def _in(self, side: Side, x: int) -> None:
        first = self._members[x][0]
        coming = side.graph.call_function(calls.begin_in, (self.store, self._tickets[x]))  # type: ignore[arg-type]
        coming.meta["val"], coming.meta[REAL_BYTES] = first.meta["val"], [self._bytes[x] * self._homes[x]]
        self._coming[x] = coming

    def _wait_in(self, side: Side, x: int) -> None:
        members, coming = self._members[x], self._coming[x]
        back = side.graph.call_function(calls.wait_in, (self._tickets[x], coming))
        back.meta["val"] = tuple(node.meta["val"] for node in members)
        home, lent = side.new_home(), coming.op == "placeholder"
        for i, node in enumerate(members):
            element = side.graph.call_function(operator.getitem, (back, i))
            element.meta = dict(node.meta)
            side.value[node], side.home[node] = element, home
            (side.borrowed.add if lent else side.borrowed.discard)(node)

    def _begin_load(self, side: Side, x: int) -> None:
        load = self._weights[x]
        coming = side.graph.call_function(calls.begin_load, (load.args[0], side.value[_weight(load)]))
        coming.meta["val"] = load.meta["val"]
        self._coming[x] = coming

    def _wait_load(self, side: Side, x: int) -> None:
        load, coming = self._weights[x], self._coming[x]
        there = side.graph.call_function(calls.wait_load, (coming,))
        there.meta = dict(load.meta)
        side.value[load], side.home[load] = there, side.new_home()
        (side.borrowed.add if coming.op == "placeholder" else side.borrowed.discard)(load)


def _weight(load: fx.Node) -> fx.Node:
    """The input that it reads."""
    weight = load.args[1]
    assert isinstance(weight, fx.Node)
    return weight


def _plain(node: fx.Node) -> bool:
    """Whether its memory can be copied as bytes."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.layout == torch.strided
