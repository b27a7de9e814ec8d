# SPDX-License-Identifier: Apache-2.0
"""From a TensorFlow step to a dataflow graph, and from a schedule back to the sequence of calls that runs.

Variables, arguments and large constants are inputs: always there. What a variable is read as is a view of it. Operators
that read or change state run once, as do those that run functions, and the tail: what follows the gradients of a variable
is one operator. It is counted as it takes least, in blocks of rows where it can be; it runs so where there is no room for the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..graph import Graph, OpKind
from ..schedule import Schedule
from .blocks import Blocks
from .measure import SMALL_CALL_BYTES, Facts, estimate
from .operators import SPARSE, Call, Program, Value


@dataclass
class Lowered:
    """`ops[i]` are the calls that operator i of `graph` stands for, `blocks[i]` those that take less. `over_bytes`: how far a run may stay
    below the graph's count, None if unknown. `held_bytes`: what is in memory all the time."""

    program: Program
    graph: Graph
    ops: list[list[Call]]
    facts: dict[Call, Facts]
    over_bytes: int | None
    held_bytes: int
    blocks: dict[int, list[Call]] = field(default_factory=dict)

    def needed_bytes(self, graph_bytes: int) -> int:
        """What a run is proven to need, where so much is proven of the graph."""
        return max(self.held_bytes, 0 if self.over_bytes is None else graph_bytes - self.over_bytes)

    @property
    def basis(self) -> str:
        """What a proof of bytes rests on."""
        if self.over_bytes is None:
            return "which counts variables and arguments alone, since operators' bytes are estimated"
        chunks = any(facts.how == "chunks" and facts.workspace_bytes for facts in self.facts.values())
        return f"with operators' bytes as they were measured{', some in whole chunks of the allocator' if chunks else ''}"

    def sequence(self, schedule: Schedule, whole: Collection[int] = ()) -> list[Call]:
        """The calls in the order of the schedule; constants that are too large to fold come first. `whole`: operators to be run as they
        are written."""
        return [call for _, calls in self._runs(schedule, whole) for call in calls]

    def within(self, schedule: Schedule, limit: int) -> tuple[list[Call], int]:
        """The calls, with as few operators in blocks as the limit allows, and their peak."""
        walk = _entered(self)
        walk.run(self.sequence(schedule, self.blocks), self.program.results)
        peaks, whole = iter(walk.peaks), set()
        for i, calls in self._runs(schedule, self.blocks):
            if max((next(peaks) for _ in calls), default=0) <= limit:
                whole.add(i)
        for chosen in (whole, ()):
            sequence = self.sequence(schedule, chosen)
            peak = peak_bytes(self, sequence)
            if peak <= limit:
                break
        return sequence, peak

    def _runs(self, schedule: Schedule, whole: Collection[int]) -> Iterable[tuple[int, list[Call]]]:
        yield -1, [call for call in self.program.calls if call.type == "Const"]
        for step in schedule.steps:
            if step.kind == "compute":
                yield step.index, self.ops[step.index] if step.index in whole else self.blocks.get(step.index, self.ops[step.index])


def lower(program: Program, facts: dict[Call, Facts], *, name: str, fixed_bytes: int, uncounted_bytes: int = 0, guessed: bool = False,
          blocks: Blocks | None = None) -> Lowered:  # fmt: skip
    """`fixed_bytes`: what the process holds outside the step. `uncounted_bytes`: what kernels may allocate and no counter sees. `guessed`:
    whether the bytes of some large operators are estimates. `blocks`: what can be run in blocks."""
    blocks = blocks or Blocks()
    for call in (call for calls in blocks.instead.values() for call in calls if call not in facts):
        facts[call] = replace(facts[blocks.like[call]], nanoseconds=0) if call in blocks.like else estimate(call)
    changed = {call.inputs[0] for call in program.calls if call.type.startswith(SPARSE)}
    for call in program.calls:
        if call.type == "ReadVariableOp" and call.inputs[0] in changed:
            facts[call] = replace(facts[call], views=(-1,))
    graph = Graph(name, cost_unit="ns", fixed_bytes=fixed_bytes + uncounted_bytes + program.constant_bytes + blocks.constant_bytes)
    return _Lowering(program, facts, graph, fixed_bytes, uncounted_bytes, guessed, blocks).run()


class _Lowering:
    def __init__(self, program: Program, facts: dict[Call, Facts], graph: Graph, fixed: int, uncounted: int, guessed: bool,
                 blocks: Blocks) -> None:  # fmt: skip
        self.program, self.facts, self.graph = program, facts, graph
        self.fixed, self.uncounted, self.guessed = fixed, uncounted, guessed
        self.instead, self.blocks = blocks.instead, dict[int, list[Call]]()
        self.tensor_of: dict[Value, int] = {}
        self.owner: dict[Value, int] = {}
        self.made: set[int] = set()  # tensors with their own bytes that an operator makes
        self.over = SMALL_CALL_BYTES + blocks.constant_bytes  # bytes that an operator is counted with, at most, though a run may do without them

    def run(self) -> Lowered:
        program = self.program
        for value in program.inputs:
            self._entering(value, value.variable if value.is_resource else value.bytes)
        for call in program.calls:
            if call.type == "Const":
                self._entering(call.outputs[0], call.outputs[0].bytes)
        groups = program.groups()
        last_reader: dict[Value, int] = {}
        for i, group in enumerate(groups):
            for call in group:
                last_reader.update(dict.fromkeys(call.inputs, i))
        last_reader.update(dict.fromkeys(program.results, len(groups)))
        for i, group in enumerate(groups):
            if len(group) == 1:
                self._call(group[0])
            else:
                leaving = {v for call in group for v in call.outputs if last_reader.get(v, -1) > i}
                later = {self.owner[v] for v, at in last_reader.items() if at > i and v in self.owner}
                self._group(i, group, leaving, {v for call in group for v in call.inputs if last_reader[v] == i and self.owner.get(v) not in later})
        computed = {v for group in groups for call in group for v in call.outputs}
        for value in dict.fromkeys(program.results):
            if value in computed:
                self.graph.result(self.tensor_of[value])
        held = sum(v.variable if v.is_resource else v.bytes for v in program.inputs) + program.constant_bytes
        return Lowered(program, self.graph.finish(), groups, self.facts, None if self.guessed else self.over + self.uncounted, held + self.fixed,
                       self.blocks)  # fmt: skip

    def _entering(self, value: Value, size: int) -> None:
        self.tensor_of[value] = self.owner[value] = self.graph.tensor(bytes=size, name=value.name)

    def _leaving(self, call: Call, k: int) -> int:
        """The tensor of an output."""
        value, view = call.outputs[k], self.facts[call].views[k]
        source = call.inputs[view] if view >= 0 else None
        if source is not None and source in self.owner:
            self.owner[value] = self.owner[source]
            self.tensor_of[value] = self.graph.tensor(bytes=0, name=value.name, alias_of=self.owner[value])
        else:
            self.tensor_of[value] = self.owner[value] = self.graph.tensor(bytes=max(0, value.bytes), name=value.name)
            self.made.add(self.tensor_of[value])
        return self.tensor_of[value]

    def _call(self, call: Call) -> None:
        known = self.facts[call]
        outputs = [self._leaving(call, k) for k in range(len(call.outputs))]
        inputs = [self.tensor_of[v] for v in call.inputs if v in self.tensor_of]
        pairs = [(self.tensor_of[call.inputs[i]], outputs[k]) for i, k in known.over if self.tensor_of.get(call.inputs[i]) in self.made]
        pairs = list({pair[1]: pair for pair in reversed(pairs)}.values())  # a result takes one operand's place
        # A run takes that of another operand as well, or of a view's owner.
        other = {k for i, k in known.over if (self.tensor_of.get(call.inputs[i]), outputs[k]) not in pairs}
        self.over = max(self.over, sum(call.outputs[k].bytes for k in other) + _rounded(known))
        kind: OpKind = "update" if call in self.program.tail else "backward" if call.is_backward else "forward"
        self.graph.op(name=call.name, kind=kind, cost=known.nanoseconds, workspace_bytes=known.workspace_bytes, recomputable=not call.once,
                      inputs=list(dict.fromkeys(inputs)), outputs=outputs, inplace=pairs, module=call.module)  # fmt: skip

    def _group(self, place: int, group: list[Call], leaving: set[Value], dying: set[Value]) -> None:
        """`dying`: operands whose storage nothing reads later. The group may write over them, and free them before it ends."""
        inside = {v for call in group for v in call.outputs}
        for value in inside:
            self.owner.pop(value, None)
        outside = [v for v in dict.fromkeys(v for call in group for v in call.inputs) if v not in inside and v in self.tensor_of]
        outputs, given = [], 0
        for call in group:
            for k, value in enumerate(call.outputs):
                if value in leaving:
                    outputs.append(self._leaving(call, k))
                    given += self.graph_bytes(value)

        def busy_of(calls: list[Call]) -> int:
            walk = _Walk(self.facts)
            walk.enter([v for v in outside if v in dying and self.tensor_of[v] in self.made], holders=1)
            walk.enter([v for v in outside if v not in walk.now])  # variables among them: what is read of one is not written over
            there = walk.live
            return walk.run(calls, leaving) - there

        calls, busy = group, busy_of(group)
        if group[0] in self.instead and (less := busy_of(self.instead[group[0]])) < busy:
            self.blocks[place] = calls = self.instead[group[0]]
            busy = less
        views = {self.owner[v] for v in outside if v in dying and self.tensor_of[v] not in self.made} & self.made
        freed = sum(v.bytes for v in outside if v in dying and self.owner[v] in views)  # by a run earlier than by the graph
        self.over = max(self.over, freed + max(0, given - busy) + max(_rounded(self.facts[call]) for call in calls))
        self.graph.op(name=group[-1].name, kind="update", cost=sum(self.facts[c].nanoseconds for c in group), workspace_bytes=max(0, busy - given),
                      recomputable=False, inputs=list(dict.fromkeys(self.tensor_of[v] for v in outside)), outputs=outputs,
                      module=group[-1].module)  # fmt: skip

    def graph_bytes(self, value: Value) -> int:
        return max(0, value.bytes) if self.owner[value] == self.tensor_of[value] else 0


def _rounded(facts: Facts) -> int:
    """Bytes of a workspace that may be less in truth."""
    return 0 if facts.how == "measured" else facts.workspace_bytes


def peak_bytes(lowered: Lowered, sequence: Sequence[Call]) -> int:
    """What TensorFlow allocates when the calls run one after another, arguments and variables included: an output that is no view
    is a new storage, unless it takes that of an operand that nothing reads any more; a storage is freed after the last
    reader of the last value on it. A variable that is assigned while values read from it are there is copied."""
    return _entered(lowered).run(sequence, lowered.program.results)


def _entered(lowered: Lowered) -> _Walk:
    walk = _Walk(lowered.facts)
    walk.base = lowered.graph.fixed_bytes
    walk.enter(lowered.program.inputs)
    return walk


class _Walk:
    """Storages while calls run. `base`: bytes that are always there. `peaks`: bytes at most during each call, with the base."""

    def __init__(self, facts: dict[Call, Facts]) -> None:
        self.facts = facts
        self.base = 0
        self.live = self.peak = self.most = 0
        self.peaks: list[int] = []
        self.sizes: list[int] = []
        self.holders: list[int] = []
        self.now: dict[Value, int] = {}  # which run of its call made what a value is now
        self.on: dict[tuple[int, Value], int] = {}
        self.theirs: set[tuple[int, Value]] = set()  # the caller's, which stay

    def enter(self, values: Iterable[Value], holders: int = 2) -> None:
        """What is there before. The caller's are held twice over, so that nothing is written over them."""
        for value in values:
            self.now[value] = -1
            self.on[-1, value] = self._allocate(value.variable if value.is_resource else value.bytes, holders)
            if holders > 1:
                self.theirs.add((-1, value))

    def run(self, sequence: Sequence[Call], results: Iterable[Value]) -> int:
        """The peak in bytes. Values that no call of `sequence` makes belong to the caller, who keeps them, and are not counted."""
        last = _last_readers(sequence, results)
        for at, call in enumerate(sequence):
            self.most = 0
            if call.type == "Const":
                self.enter(call.outputs)
            else:
                self._step(at, call, last)
            self.peaks.append(self.base + self.most)
        return self.base + self.peak

    def _step(self, at: int, call: Call, last: dict[tuple[int, Value], int]) -> None:
        known = self.facts[call]
        read = [(self.now[v], v) for v in dict.fromkeys(call.inputs) if v in self.now]
        dying = {key for key in read if last.get(key, -1) <= at and key not in self.theirs}
        if call.takes_alone and (handle := (self.now.get(call.inputs[0], -2), call.inputs[0])) in self.on:
            storage = self.on[handle]
            if self.holders[storage] > 2:  # two references are the caller's; a third is a read value, which must keep its content
                self.on[handle] = self._allocate(self.sizes[storage], holders=2)
                self._drop(storage)
                self._drop(storage)
        found: list[tuple[Value, int]] = []
        for k, value in enumerate(call.outputs):
            source = call.inputs[known.views[k]] if known.views[k] >= 0 else None
            taken = next((key for key in self._takes(call, k) if key in dying and self.holders[self.on[key]] == 1), None)
            if source is not None and source in self.now:
                storage = self._hold(self.on[self.now[source], source])
            elif taken is not None:
                storage = self._hold(self.on[taken])
            else:
                storage = self._allocate(max(0, value.bytes)) if source is None else self._allocate(0, holders=2)
            found.append((value, storage))
        self._busy(known.workspace_bytes)
        for key in dying:
            self._drop(self.on.pop(key))
        for value, storage in found:
            if (at, value) in last:
                self.now[value], self.on[at, value] = at, storage
            else:
                self._drop(storage)

    def _takes(self, call: Call, output: int) -> list[tuple[int, Value]]:
        """The operands whose storage the result may take."""
        operands = [call.inputs[i] for i, k in self.facts[call].over if k == output]
        return [(self.now[v], v) for v in operands if v in self.now]

    def _allocate(self, size: int, holders: int = 1) -> int:
        self.sizes.append(size)
        self.holders.append(holders)
        self.live += size
        self._busy(0)
        return len(self.sizes) - 1

    def _hold(self, storage: int) -> int:
        self.holders[storage] += 1
        return storage

    def _drop(self, storage: int) -> None:
        self.holders[storage] -= 1
        if self.holders[storage] == 0:
            self.live -= self.sizes[storage]

    def _busy(self, more: int) -> None:
        self.most = max(self.most, self.live + more)
        self.peak = max(self.peak, self.most)


def _last_readers(sequence: Sequence[Call], results: Iterable[Value]) -> dict[tuple[int, Value], int]:
    """For each value of each run of a call, the place of its last reader."""
    made: dict[Value, int] = {}
    last: dict[tuple[int, Value], int] = {}
    for at, call in enumerate(sequence):
        for value in call.inputs:
            last[made.get(value, -1), value] = at
        made.update(dict.fromkeys(call.outputs, at))
    for value in results:
        last[made.get(value, -1), value] = len(sequence)
    return last
