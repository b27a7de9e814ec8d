# SPDX-License-Identifier: Apache-2.0
"""From a schedule to the forward and the backward graph, and the peak that running them has.

What is live when the boundary runs and used after it before it is computed again is saved. A value computed a second
time is a second call in the graph, at its scheduled place. Frees need no call: a value dies at its last use.
"""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import dataclass

import torch
from torch import fx

from ...errors import UnsupportedError
from ...schedule import Schedule, Step
from ..offload import calls
from . import effects, fusion, inplace, random_state, symbols
from .dataflow import Joint, is_opaque, is_tangent, storage_bytes, storage_key, tensors
from .moves import Moves

#: In the metadata of a call in one of the halves: the name that it has in the joint graph.
CALL = "checkmate_call"


@dataclass
class Halves:
    """The two graphs, ready for AOTAutograd, and what was counted while they were made."""

    forward: fx.GraphModule
    backward: fx.GraphModule
    saved_bytes: int
    recomputed: list[str]


class _Side:
    """One of the two graphs while it is written; `value` maps a node of the joint graph to the newest one that holds it.
    `borrowed`: nodes of the joint graph whose value lies, for now, in a storage that came from outside. `shared`: calls without bytes
    that later readers take as they are, and what they were made of. `home`: a number of the memory that a node's value lies in."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.value: dict[fx.Node, fx.Node] = {}
        self.borrowed: set[fx.Node] = set()
        self.shared: dict[fx.Node, list[fx.Node]] = {}
        self.home: dict[fx.Node, int] = {}
        self._homes = 0
        self._given: dict[int, int] = {}  # storages that came from outside, and their numbers

    def new_home(self) -> int:
        self._homes += 1
        return self._homes

    def placeholder(self, node: fx.Node) -> None:
        new = self.graph.placeholder(node.name)
        new.meta = dict(node.meta)
        self.value[node] = new
        self.borrowed.add(node)
        key = storage_key(new.meta["val"]) if isinstance(new.meta.get("val"), torch.Tensor) else 0
        self.home[node] = self._given.setdefault(key, self.new_home())

    def call(self, node: fx.Node, new: fx.Node) -> None:
        """`new` computes `node`."""
        new.meta[CALL] = node.name
        self.value[node] = new
        operands = [] if node.target is calls.load else node.all_input_nodes
        base = next((parent for parent in operands if parent in self.home and _on_one(node, parent)), None)
        self.home[node] = self.new_home() if base is None else self.home[base]
        lent = {storage_key(t) for parent in operands if parent in self.borrowed for t in tensors(parent.meta.get("val")) if t is not None}
        if any(t is not None and storage_key(t) in lent for t in tensors(node.meta.get("val"))):
            self.borrowed.add(node)
        else:
            self.borrowed.discard(node)


def _on_one(node: fx.Node, parent: fx.Node) -> bool:
    """Whether a node's value, or a part of it, lies in the same storage as its parent's."""
    keys = {storage_key(t) for t in tensors(parent.meta.get("val")) if t is not None}
    return any(t is not None and storage_key(t) in keys for t in tensors(node.meta.get("val")))


def split(joint: Joint, schedule: Schedule) -> Halves:
    moves = Moves(joint, schedule)
    everything = moves.steps
    middle = next(i for i, step in enumerate(everything) if step.kind == "compute" and step.index == joint.boundary)
    computes = [step for step in everything if step.kind == "compute"]
    steps = [step.index for step in computes]
    cut = steps.index(joint.boundary)
    nodes = list(joint.module.graph.nodes)
    replayed = _drawn_again(joint, steps)

    # What the backward pass uses before it has computed it itself.
    saved: dict[fx.Node, None] = {}
    numbers: dict[fx.Node, None] = {}  # those among the inputs
    computed: set[fx.Node] = set()
    for step in everything[middle + 1 :]:
        if step.kind != "compute":
            saved.update((node, None) for node in moves.reads(step) if node not in computed)
            computed.update(moves.brings(step))
            continue
        op = joint.ops[step.index]
        if op.node is None:
            continue
        for parent in fusion.operands(op.node, joint.fused):
            if symbols.is_symbol(parent) or symbols.is_number(parent):
                numbers.update(dict.fromkeys(symbols.inputs_of(parent)))
            elif parent not in computed and parent.op != "get_attr" and not is_tangent(parent):
                saved[parent] = None
        computed.update([op.node, *op.elements.values()])
    for output in joint.backward_outputs:
        if isinstance(output, fx.Node) and output not in computed and output.op != "get_attr" and not is_tangent(output):
            saved[output] = None
    opaque = [node for node in saved if is_opaque(node)]
    kept, anew = _one_a_storage({node: None for node in saved if node not in opaque})
    for view in anew:
        for parent in view.all_input_nodes:
            if symbols.is_symbol(parent) or symbols.is_number(parent):
                numbers.update(dict.fromkeys(symbols.inputs_of(parent)))
    states = _states_crossing(joint, steps, cut, replayed)
    tickets, arriving = moves.crossing(middle)

    forward, backward = _Side(), _Side()
    state_of: dict[fx.Node, fx.Node] = {}
    for node in nodes:
        if node.op == "placeholder" and not is_tangent(node):
            forward.placeholder(node)
    done: set[fx.Node] = set()
    recomputed: list[str] = []
    for step in everything[:middle]:
        if step.kind != "compute":
            moves.emit(forward, step)
            continue
        _emit(joint, forward, step, done, recomputed, replayed, state_of)
    for node in kept:
        if not isinstance(node.meta.get("val"), torch.Tensor):
            raise UnsupportedError(f"{node.name} is no tensor and is needed in the backward pass: shapes must be static")
    values = [_copy_constant(joint, forward, node) for node in joint.forward_outputs]
    values += [_copy_constant(joint, forward, node) for node in kept] + [state_of[node] for node in states] + moves.saved(tickets, arriving)
    # AOTAutograd has tensors first among the outputs, then opaque objects, then numbers; numbers are first among the inputs.
    values += [forward.value[node] for node in (*opaque, *numbers)]
    _finish(joint, forward, values, _descriptors(joint, True, len(values) - len(joint.forward_outputs)))

    for node in numbers:
        backward.placeholder(node)
    for node in kept:
        backward.placeholder(node)
    for node in states:
        new = backward.graph.placeholder(f"{node.name}_state")
        new.meta = dict(state_of[node].meta)
        state_of[node] = new
    moves.enter(backward, tickets, arriving)
    for node in opaque:
        backward.placeholder(node)
    for node in nodes:
        if is_tangent(node):
            backward.placeholder(node)
    for view in anew:
        for parent in view.all_input_nodes:
            _copy_constant(joint, backward, parent)
        backward.call(view, backward.graph.node_copy(view, lambda n: backward.value[n]))
    for step in everything[middle + 1 :]:
        if step.kind != "compute":
            moves.emit(backward, step)
            continue
        _emit(joint, backward, step, done, recomputed, replayed, state_of)
    for node in backward.graph.nodes:
        if node.op == "call_function":
            node.meta["autograd_backward"] = True
    _finish(joint, backward, [_copy_constant(joint, backward, node) for node in joint.backward_outputs], _descriptors(joint, False, 0))

    storages = {storage_key(n.meta["val"]): storage_bytes(n.meta["val"]) for n in kept if n.op == "call_function"}
    module = torch.fx._lazy_graph_module._make_graph_module
    return Halves(module(joint.module, forward.graph), module(joint.module, backward.graph), sum(storages.values()), recomputed)


def _one_a_storage(saved: dict[fx.Node, None]) -> tuple[list[fx.Node], list[fx.Node]]:
    """The nodes to save, no two of which are views of one tensor, and the views to write anew in the backward pass, in order. AOTAutograd
    gives to inductor what the backward pass alone holds ("donated buffers"), and inductor writes over each as if it had memory of its own."""
    chains = {node: _chain(node) for node in saved if isinstance(node.meta.get("val"), torch.Tensor)}
    bases = Counter(chain[0] for chain in chains.values())
    kept: dict[fx.Node, None] = {}
    anew: dict[fx.Node, None] = {}
    for node in saved:
        chain = chains.get(node, [node])
        if bases[chain[0]] < 2:
            kept[node] = None
            continue
        kept[chain[0]] = None
        anew.update(dict.fromkeys(chain[1:]))
    return list(kept), list(anew)


def _chain(node: fx.Node) -> list[fx.Node]:
    """The tensor that a node is a view of, and the calls that lead from it to the node."""
    chain = [node]
    while (base := _viewed(chain[-1])) is not None:
        chain.append(base)
    return chain[::-1]


def _viewed(node: fx.Node) -> fx.Node | None:
    """What a call gives a view of, or a part; None for what has memory of its own."""
    if node.target is operator.getitem:
        parent = node.args[0]
        assert isinstance(parent, fx.Node)
        return parent if _viewed(parent) is not None else None
    bases = [parent for parent in node.all_input_nodes if isinstance(parent.meta.get("val"), torch.Tensor)]
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable or len(bases) != 1:
        return None
    made = [value for value in tensors(node.meta.get("val")) if value is not None]
    return bases[0] if made and all(storage_key(value) == storage_key(bases[0].meta["val"]) for value in made) else None


def _drawn_again(joint: Joint, steps: list[int]) -> set[fx.Node]:
    """Random calls of the model that the schedule makes more than once."""
    draws = Counter(effects.origin(node) for node in (joint.ops[index].node for index in steps) if node is not None and effects.is_random(node))
    return {node for node, times in draws.items() if times > 1}


def _states_crossing(joint: Joint, steps: list[int], cut: int, replayed: set[fx.Node]) -> list[fx.Node]:
    """Random calls first made in the forward pass and again in the backward pass: their state is saved too."""

    def calls(some: list[int]) -> dict[fx.Node, None]:
        return dict.fromkeys(effects.origin(node) for node in (joint.ops[index].node for index in some) if node is not None)

    after = calls(steps[cut + 1 :])
    return [node for node in calls(steps[:cut]) if node in after and node in replayed]


def _emit(joint: Joint, side: _Side, step: Step, done: set[fx.Node], recomputed: list[str], replayed: set[fx.Node],
          state_of: dict[fx.Node, fx.Node]) -> None:  # fmt: skip
    op = joint.ops[step.index]
    node = op.node
    if node is None:
        return
    for parent in fusion.operands(node, joint.fused):
        _copy_constant(joint, side, parent)

    def read(call: fx.Node) -> list[fx.Node]:
        return [side.value[leaf] for leaf in joint.fused[call]]

    for call in fusion.calls(node, joint.fused, lambda call: side.shared.get(call) == read(call)):
        side.call(call, side.graph.node_copy(call, lambda n: side.value[n]))
        side.value[call].meta[fusion.FUSED] = True
        if fusion.is_shared(call):
            side.shared[call] = read(call)
    call = effects.origin(node)
    again = call in done
    if again and node.target is not calls.load:
        recomputed.append(call.name)
    if call in replayed and not again:
        state_of[call] = random_state.capture(side.graph, node)
    overwritten = _overwritten(joint, side, node, step)
    if call in replayed and again:
        new = random_state.replay(side.graph, node, state_of[call], lambda n: side.value[n])
    elif overwritten is not None:
        new = inplace.emit(side.graph, node, overwritten, lambda n: side.value[n])
    else:
        new = side.graph.node_copy(node, lambda n: side.value[n])
    done.add(call)
    side.call(node, new)
    for element in op.elements.values():
        side.call(element, side.graph.node_copy(element, lambda n: side.value[n]))
    for user in node.users:  # the same element taken twice
        if user.target is operator.getitem and user not in op.elements.values():
            twin = op.elements[user.args[1]]  # type: ignore[index]
            side.value[user] = side.value[twin]
            (side.borrowed.add if twin in side.borrowed else side.borrowed.discard)(user)


def _overwritten(joint: Joint, side: _Side, node: fx.Node, step: Step) -> fx.Node | None:
    """The operand that the schedule lets the call write over, unless its storage came from outside: what the forward pass
    saved is needed again when the backward pass runs a second time."""
    for operand, _result in step.inplace:
        for parent in node.all_input_nodes:
            if joint.tensor_of.get(parent) == operand and parent not in side.borrowed:
                return parent
    return None


def _copy_constant(joint: Joint, side: _Side, node: object) -> object:
    """The value of a node in this graph; a constant of the module is fetched, and a number computed, where it is first used."""
    if symbols.is_number(node) and node not in side.value:
        assert isinstance(node, fx.Node)
        for parent in node.all_input_nodes:
            _copy_constant(joint, side, parent)
        side.value[node] = side.graph.node_copy(node, lambda n: side.value[n])
    if isinstance(node, fx.Node) and node.op == "get_attr" and node not in side.value:
        side.value[node] = side.graph.node_copy(node)
        side.borrowed.add(node)
    return _value(side, node)


def _value(side: _Side, node: object) -> object:
    return side.value[node] if isinstance(node, fx.Node) else node


def _descriptors(joint: Joint, forward: bool, saved: int) -> list[object] | None:
    """AOTAutograd describes outputs in the output node's metadata; versions before 2.8 do not."""
    output = next(iter(reversed(joint.module.graph.nodes)))
    given = output.meta.get("desc")
    if given is None:
        return None
    count = len(joint.forward_outputs)
    if not forward:
        return list(given[count:])
    from torch._functorch._aot_autograd.descriptors import SavedForBackwardsAOTOutput

    return [*given[:count], *(SavedForBackwardsAOTOutput(i) for i in range(saved))]


def _finish(joint: Joint, side: _Side, values: list[object], descriptors: list[object] | None) -> None:
    output = side.graph.output(tuple(values))  # type: ignore[arg-type]
    if descriptors is not None:
        output.meta["desc"] = descriptors
        output.meta["output_stack_traces"] = [v.meta.get("stack_trace") if isinstance(v, fx.Node) else None for v in values]
    side.graph.lint()
