# SPDX-License-Identifier: Apache-2.0
"""From AOTAutograd's joint forward-backward graph to a dataflow graph.

Every call in the joint graph becomes an operator; the elements of a multi-output call are tensors of one operator.
Storages are told apart by the fake tensors' own storages, so that views cost nothing and keep their base alive. Between
forward and backward stands one operator more, the *boundary*: what the caller does with the outputs to get their
tangents. It takes the forward outputs and gives the tangents, and it runs once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import fx
from torch._library.fake_class_registry import FakeScriptObject

from ...errors import UnsupportedError
from ...graph import Graph, OpKind, SecondMemory
from ..distributed import shards
from ..offload import calls
from ..offload.store import Store
from . import devices, effects, fusion, inplace, places, random_state, symbols

#: Cost of a call in nanoseconds, and the bytes it needs in addition to its operands and outputs.
CostFn = Callable[[fx.Node], tuple[int, int]]


@dataclass
class JointOp:
    """One operator: a call node and, for each element of a multi-output call, its getitem node. The node is None for the
    boundary and for what keeps a forward output."""

    node: fx.Node | None
    inputs: list[int]
    outputs: list[int]
    elements: dict[int, fx.Node] = field(default_factory=dict)


@dataclass
class Joint:
    """The operators in order, `boundary` among them, and for each node that is a tensor its number in `graph`."""

    module: fx.GraphModule
    forward_outputs: list[object]
    backward_outputs: list[object]
    ops: list[JointOp]
    boundary: int
    tensor_of: dict[fx.Node, int]
    graph: Graph
    input_bytes: int
    loss: LossOutside
    fused: dict[fx.Node, tuple[fx.Node, ...]] = field(default_factory=dict)  # calls that are no operators, and what they read: see fusion.py
    store: Store | None = None  # what the graph's second memory is


def storage_key(value: torch.Tensor) -> int:
    return value.untyped_storage()._cdata


def storage_bytes(value: torch.Tensor) -> int:
    """Bytes of the storage as the allocator counts them: CUDA's hands out multiples of 512."""
    return devices.allocated(symbols.number(value.untyped_storage().nbytes()), value.device)


#: In a node's metadata: bytes of the storages that a call really gives, by output. Some kernels hand on a larger one than
#: the output's shape needs, such as mse_loss, whose scalar lies in the buffer of the squares.
REAL_BYTES = "checkmate_real_bytes"


#: Marks, in a node's metadata, an input that takes no memory: see rewrite/loads.py.
AWAY = "checkmate_away"


def output_bytes(node: fx.Node, index: int, value: torch.Tensor) -> int:
    """Bytes of the storage behind a call's output, as measured when it was."""
    real = node.meta.get(REAL_BYTES)
    return max(storage_bytes(value), real[index] if real is not None and index < len(real) else 0)


@dataclass(frozen=True)
class LossOutside:
    """Bytes that the caller needs for a loss computed of outputs that are no scalars, in addition to these and their tangents: `kept` until the
    backward pass is over, `more` between the passes only.

    Cross entropy has the logarithms of probabilities and their gradient between the passes, in 32 bits at least. The
    scalar that mse_loss, smooth_l1_loss and binary_cross_entropy give lies in a buffer as large as their operand, for as
    long as somebody holds the loss."""

    kept: int = 0
    more: int = 0

    @staticmethod
    def of(nodes: list[fx.Node]) -> LossOutside:
        values = [node.meta.get("val") for node in nodes if is_tangent(node)]
        given = [v for v in values if isinstance(v, torch.Tensor) and symbols.number(v.numel()) > 1]
        kept = sum(devices.allocated(symbols.number(v.numel()) * max(4, v.element_size()), v.device) for v in given)
        more = sum(devices.allocated(symbols.number(v.numel()) * (v.element_size() if v.element_size() >= 4 else 6), v.device) for v in given)
        return LossOutside(kept + _LOSS_SCALARS * devices.allocated(_SCALAR_BYTES, given[0].device), more) if given else LossOutside()


#: Of a loss outside: itself, its gradient, a mean's divisor, and room for one more; bytes of each.
_LOSS_SCALARS, _SCALAR_BYTES = 4, 16


#: In a joint graph's metadata: positions of outputs that are gone when the backward pass begins.
DROPPED = "checkmate_dropped"


def is_tangent(node: fx.Node) -> bool:
    return node.op == "placeholder" and "tangents" in str(node.target)


def is_opaque(node: fx.Node) -> bool:
    """An input that is an object of Python's, such as the mesh of a distributed tensor."""
    return node.op == "placeholder" and isinstance(node.meta.get("val"), (torch.ScriptObject, FakeScriptObject))


def tensors(value: object) -> list[torch.Tensor | None]:
    """The outputs of a call: one, or the elements of a tuple or list; None for what is no tensor."""
    if isinstance(value, (tuple, list)):
        return [element if isinstance(element, torch.Tensor) else None for element in value]
    return [value if isinstance(value, torch.Tensor) else None]


def snapshot_mutated(module: fx.GraphModule, num_fwd_outputs: int) -> None:
    """Inputs that the step updates in place, such as a batch norm's statistics, are copied before: when a call that
    reads one is computed again, the input has its new value already."""
    graph = module.graph
    for node in mutated_inputs(module, num_fwd_outputs):
        readers = [user for user in node.users if user.op == "call_function"]
        if not readers:
            continue
        with graph.inserting_before(min(readers, key=list(graph.nodes).index)):
            copy = graph.call_function(torch.ops.aten.clone.default, (node,))
        value = node.meta["val"]
        with value.fake_mode:
            copy.meta["val"] = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
        copy.meta["partitioner_tag"] = "is_forward"
        copy.meta[effects.ONCE] = True
        for reader in readers:
            reader.replace_input_with(node, copy)


def mutated_inputs(module: fx.GraphModule, num_fwd_outputs: int) -> list[fx.Node]:
    """AOTAutograd describes outputs that are new values of inputs; versions before 2.8 do not, and there only the batch
    norms' statistics are recognised."""
    *nodes, output = module.graph.nodes
    inputs = [node for node in nodes if node.op == "placeholder"]
    described = output.meta.get("desc")
    if described is None:
        norm = torch.ops.aten._native_batch_norm_legit_functional.default
        return list({n: None for c in nodes if c.target is norm for n in c.args[3:5] if isinstance(n, fx.Node)})
    sources = [getattr(d, "mutated_input", None) for d in list(described)[:num_fwd_outputs]]
    return [node for node in inputs if node.meta.get("desc") is not None and node.meta["desc"] in sources]


def updates(module: fx.GraphModule, num_fwd_outputs: int) -> set[fx.Node]:
    """Forward outputs that are gone when the forward pass is over: new values of inputs and nothing else, which are copied into these then,
    and what `drop_outputs` says. None are known where outputs are not described."""
    *_nodes, output = module.graph.nodes
    described = output.meta.get("desc")
    if described is None:
        return set()
    outputs = list(output.args[0])
    dropped = module.meta.get(DROPPED, ())
    gone = [getattr(d, "mutated_input", None) is not None or i in dropped for i, d in enumerate(list(described)[:num_fwd_outputs])]
    gone += [False] * (len(outputs) - len(gone))
    staying = {node for node, leaves in zip(outputs, gone, strict=True) if not leaves}
    return {node for node, leaves in zip(outputs, gone, strict=True) if leaves and isinstance(node, fx.Node)} - staying


def other_outputs(module: fx.GraphModule, num_fwd_outputs: int) -> list[int]:
    """The positions of forward outputs that the caller gets and that are not differentiated. None are known where outputs are not described."""
    *nodes, output = module.graph.nodes
    described = list(output.meta.get("desc") or [])[:num_fwd_outputs]
    differentiated = [getattr(node.meta.get("desc"), "output", None) for node in nodes if is_tangent(node)]
    return [i for i, d in enumerate(described) if getattr(d, "mutated_input", None) is None and d not in differentiated]


def other_output_bytes(module: fx.GraphModule, num_fwd_outputs: int) -> int:
    """Of what the caller gets in addition to what is differentiated, in storages of their own."""
    *nodes, output = module.graph.nodes
    positions = other_outputs(module, num_fwd_outputs)
    given = output.args[0][:num_fwd_outputs]

    def storages(some: Iterable[object]) -> dict[int, int]:
        values = [value for node in some if isinstance(node, fx.Node) for value in tensors(node.meta.get("val")) if value is not None]
        return {storage_key(value): storage_bytes(value) for value in values}

    others = storages([*(node for node in nodes if node.op == "placeholder"), *(node for i, node in enumerate(given) if i not in positions)])
    return sum(size for key, size in storages(given[i] for i in positions).items() if key not in others)


def drop_outputs(module: fx.GraphModule, num_fwd_outputs: int) -> None:
    """Notes that the caller holds none of the outputs other than what is differentiated when the backward pass begins."""
    if next(iter(reversed(module.graph.nodes))).meta.get("desc") is None:
        raise UnsupportedError(f"keep_outputs=False needs PyTorch 2.8 or newer, and this is {torch.__version__}: pip install --upgrade torch")
    module.meta[DROPPED] = frozenset(other_outputs(module, num_fwd_outputs))


def _element(getitem: fx.Node) -> int:
    """Which element of a multi-output call a getitem takes."""
    index = getitem.args[1]
    assert isinstance(index, int)
    return index


def sides(nodes: list[fx.Node], forward_outputs: list[object]) -> tuple[list[fx.Node], list[fx.Node]]:
    """Calls of the forward and of the backward pass. Backward begins at the first call that needs a tangent or is marked
    as backward; calls after it that a forward output needs are forward all the same."""
    after_tangent: set[fx.Node] = set()
    began = False
    late: set[fx.Node] = set()
    for node in nodes:
        if is_tangent(node) or any(parent in after_tangent for parent in node.all_input_nodes):
            after_tangent.add(node)
        if node.op == "call_function":
            began = began or node in after_tangent or node.meta.get("partitioner_tag") == "is_backward"
            if began:
                late.add(node)
    stack = [node for node in forward_outputs if isinstance(node, fx.Node)]
    while stack:
        node = stack.pop()
        if node in late:
            late.discard(node)
            stack.extend(node.all_input_nodes)
    calls = [node for node in nodes if node.op == "call_function" and node.target is not operator.getitem and not symbols.is_number(node)]
    return [n for n in calls if n not in late], [n for n in calls if n in late]


def build(module: fx.GraphModule, num_fwd_outputs: int, cost: CostFn, *, name: str, fixed_bytes: int, replay: bool,
          overwrite: bool = False, reserve_bytes: int = 0, loss: LossOutside = LossOutside(),
          fused: dict[fx.Node, tuple[fx.Node, ...]] | None = None, store: Store | None = None,
          second_memory: Callable[[int], SecondMemory] | None = None) -> Joint:  # fmt: skip
    """`fixed_bytes`: what the process holds in addition to the graph's own inputs and values. `replay`: whether random calls may
    be recomputed (their generator's state is then replayed). `overwrite`: whether calls may write over dead operands.
    `reserve_bytes`: what is to be left free between the passes. `loss`: what the caller needs. `fused`: calls that their readers
    make themselves, each with what it reads. `store`: where tensors may be moved to; `second_memory` describes it to the planner, for so
    many bytes as all tensors have."""
    nodes = list(module.graph.nodes)
    outputs = list(nodes[-1].args[0])
    forward_outputs, backward_outputs = outputs[:num_fwd_outputs], outputs[num_fwd_outputs:]
    made = _Builder(Graph(name, cost_unit="ns", fixed_bytes=fixed_bytes), nodes, forward_outputs, cost, replay=replay, overwrite=overwrite)
    made.fused = fused or {}
    made.updates = updates(module, num_fwd_outputs)
    for node in nodes:
        made.input(module, node)
    forward, backward = sides(nodes, forward_outputs)
    for node in forward:
        if node not in made.fused:
            made.call(node, "forward")
    boundary = made.boundary(nodes, reserve_bytes, loss)
    for node in backward:
        if node not in made.fused:
            made.call(node, "backward")
    made.results(backward_outputs)
    if second_memory is not None:
        made.graph.second_memory = second_memory(sum(tensor.bytes for tensor in made.graph.tensors))
    return Joint(module, forward_outputs, backward_outputs, made.ops, boundary, made.tensor_of, made.graph.finish(), made.input_bytes, loss,
                 made.fused, store)  # fmt: skip


class _Builder:
    """The dataflow graph while it is made."""

    def __init__(self, graph: Graph, nodes: list[fx.Node], forward_outputs: list[object], cost: CostFn, *, replay: bool, overwrite: bool) -> None:
        self.graph, self.cost, self.replay, self.overwrite = graph, cost, replay, overwrite
        self.ops: list[JointOp] = []
        self.tensor_of: dict[fx.Node, int] = {}
        self.input_bytes = 0
        self._owner: dict[int, int] = {}  # storage to the tensor that has its bytes
        self._storage: dict[int, tuple[str, int]] = {}  # tensor to the pass that makes its storage, and its bytes
        self._held = {n for n in forward_outputs if isinstance(n, fx.Node)}
        self.updates: set[fx.Node] = set()  # those of them that the caller does not hold after the forward pass
        self.fused: dict[fx.Node, tuple[fx.Node, ...]] = {}
        self._kept: dict[fx.Node, int] = {}  # the view of a forward output that stays with the caller
        # Random calls that the backward pass makes again: their generator's state goes there as one more output.
        self._copied = {effects.origin(n) for n in nodes if effects.COPY_OF in n.meta and effects.is_random(n)}
        self._state_of: dict[fx.Node, int] = {}

    def _tensor(self, value: torch.Tensor | None, node: fx.Node | None, label: str, kind: str, size: int | None = None) -> int:
        key = None if value is None else storage_key(value)
        if key is not None and key in self._owner:
            index = self.graph.tensor(bytes=0, name=label, alias_of=self._owner[key])
            self._storage[index] = self._storage[self._owner[key]]
        else:
            if size is None:
                size = 0 if value is None else storage_bytes(value)
            index = self.graph.tensor(bytes=size, name=label)
            self._storage[index] = (kind, size)
            if key is not None:
                self._owner[key] = index
            if kind == "input":
                self.input_bytes += size
        if node is not None:
            self.tensor_of[node] = index
        return index

    def input(self, module: fx.GraphModule, node: fx.Node) -> None:
        """Parameters, buffers, inputs and constants; other nodes are looked at for what cannot be planned."""
        if node.op in ("call_module", "call_method"):
            raise UnsupportedError(f"the joint graph calls {node.target}, which has no operator behind it")
        value = node.meta.get("val")
        if node.op == "get_attr" and not isinstance(value, torch.Tensor):
            attribute = getattr(module, str(node.target), None)
            value = attribute if isinstance(attribute, torch.Tensor) else None
        if node.op in ("placeholder", "get_attr") and isinstance(value, torch.Tensor) and not is_tangent(node) and AWAY not in node.meta:
            self._tensor(value, node, node.name, "input", shards.shard_bytes(node))

    def call(self, node: fx.Node, kind: OpKind) -> None:
        read = fusion.operands(node, self.fused)
        op = JointOp(node, list(dict.fromkeys(self.tensor_of[p] for p in read if p in self.tensor_of)), [])
        for user in node.users:
            if user.target is operator.getitem and user.args[0] is node:
                op.elements.setdefault(_element(user), user)
        time, workspace = self.cost(node)
        # A kernel reads and writes once, whatever it computes between: about what the slowest of its calls takes.
        time = max([time, *(self.cost(call)[0] for call in fusion.calls(node, self.fused))])
        kind = "load" if node.target is calls.load else kind
        value = node.meta.get("val")
        single = not isinstance(value, (tuple, list))
        seen = 0
        for i, element in enumerate(tensors(value)):
            size = 0 if element is None else output_bytes(node, seen, element)
            seen += element is not None
            output = node if single else op.elements.get(i)
            op.outputs.append(self._tensor(element, output, node.name if single else f"{node.name}.{i}", kind, size))
        for user in node.users:  # the same element taken twice
            if user.target is operator.getitem and user.args[0] is node:
                self.tensor_of[user] = self.tensor_of[op.elements[_element(user)]]
        if node in self._copied:
            self._state_of[node] = self.graph.tensor(bytes=random_state.state_bytes(node), name=f"{node.name}.state")
            op.outputs.append(self._state_of[node])
        elif effects.origin(node) in self._copied:
            op.inputs.append(self._state_of[effects.origin(node)])
        once = effects.runs_once(node) or effects.PINNED in node.meta or (effects.is_random(node) and not self.replay)
        self.graph.op(name=node.name, kind=kind, cost=time, workspace_bytes=workspace, recomputable=not once, inputs=op.inputs,
                      outputs=op.outputs, inplace=self._overwritable(node, op) if self.overwrite else [],
                      module=places.module_of(node), source=places.source_of(node))  # fmt: skip
        self.ops.append(op)
        for output in [node, *op.elements.values()]:
            if output in self._held:
                self._keep(output)

    def _overwritable(self, node: fx.Node, op: JointOp) -> list[tuple[int, int]]:
        """Pairs of an operand and the result that may be written over it: made in the same pass, since a backward pass
        that overwrote the forward pass's values could not run twice (`retain_graph`)."""
        found = [self.tensor_of[operand] for operand in inplace.candidates(node) if operand in self.tensor_of]
        return [(operand, op.outputs[0]) for operand in found if self._storage[operand] == self._storage[op.outputs[0]]]

    def _keep(self, output: fx.Node) -> None:
        """A forward output stays with the caller to the end, even if it is computed again: a view that is made once. An update of an
        input stays until the boundary."""
        made = self.tensor_of[output]
        storage = self._owner[storage_key(output.meta["val"])]
        view = self.graph.tensor(bytes=0, name=f"{output.name}.kept", alias_of=storage)
        self.graph.op(name=f"{output.name}.keep", cost=0, recomputable=False, inputs=[made], outputs=[view])
        self.ops.append(JointOp(None, [made], [view]))
        if output not in self.updates:
            self.graph.result(view)
        self._kept[output] = view

    def boundary(self, nodes: list[fx.Node], reserve_bytes: int, loss: LossOutside) -> int:
        """What the caller does between the passes. Returns its operator. The caller has all outputs then: a schedule whose
        operators are in another order must not make one of them later."""
        crossing = sorted({self._kept.get(n, self.tensor_of[n]) for n in self._held if n in self.tensor_of})
        given = [n for n in nodes if is_tangent(n) and isinstance(n.meta.get("val"), torch.Tensor)]
        tangents = [self._tensor(n.meta["val"], n, n.name, "tangent") for n in given]
        kept = [self.graph.tensor(bytes=loss.kept, name="loss")] if loss.kept else []
        self.graph.op(name="boundary", kind="loss", cost=0, workspace_bytes=reserve_bytes + loss.more, recomputable=False, inputs=crossing,
                      outputs=[*tangents, *kept])  # fmt: skip
        for tangent in [*tangents, *kept]:
            self.graph.result(tangent)  # autograd holds on to them until the backward pass returns
        self.ops.append(JointOp(None, crossing, tangents))
        return len(self.ops) - 1

    def results(self, backward_outputs: list[object]) -> None:
        computed = {t for op in self.ops for t in op.outputs}
        for output in dict.fromkeys(n for n in backward_outputs if isinstance(n, fx.Node)):
            if self.tensor_of.get(output) in computed:
                self.graph.result(self.tensor_of[output])
