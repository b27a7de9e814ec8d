# SPDX-License-Identifier: Apache-2.0
"""Dataflow graphs: operators with a cost, tensors with bytes."""

from __future__ import annotations

import ctypes as c
import functools
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from ._library import COp, CSecondMemory, CTensor, int32, int64, lib
from .errors import call

OpKind = Literal["forward", "loss", "backward", "update", "load"]
CostUnit = Literal["flops", "ns", "us"]
_KINDS: list[OpKind] = ["forward", "loss", "backward", "update", "load"]
_UNITS: list[CostUnit] = ["flops", "ns", "us"]


@dataclass(frozen=True)
class Tensor:
    """A value. A view (`alias_of` >= 0) adds no bytes and keeps its owner's storage alive."""

    name: str
    bytes: int
    alias_of: int


@dataclass(frozen=True)
class Op:
    """An operator; tensors are given by number. `module` ("layers.3.mlp") and `source` ("model.py:212") say where in the
    user's program it comes from; they are "" where that is not known."""

    name: str
    kind: OpKind
    cost: int
    workspace_bytes: int
    recomputable: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    inplace: tuple[tuple[int, int], ...]
    module: str = ""
    source: str = ""
    load_bytes: int = 0


@dataclass(frozen=True)
class SecondMemory:
    """Where tensors can be moved and read back while operators run, one transfer each way at a time. `bytes` None: no limit."""

    out_bytes_per_second: int
    in_bytes_per_second: int
    latency_ns: int = 0
    bytes: int | None = None
    name: str = "host"


class Graph:
    """A directed acyclic graph, built once by adding tensors and then operators in a topological order.

    Tensors and operators are numbered from 0 in the order in which they are added. The order of the operators is the
    order of first executions. A tensor that no operator produces is an input: always live, always counted.

    Costs are times ("ns", "us") or, as "flops", multiply-accumulates, of which the figures and pages speak as MACs.

    >>> g = Graph("tiny")
    >>> x, y = g.tensor(bytes=4, name="x"), g.tensor(bytes=8, name="y")
    >>> _ = g.op(cost=3, inputs=[x], outputs=[y])
    >>> g.result(y)
    >>> g.memory_floor
    12
    """

    def __init__(self, name: str = "", *, cost_unit: CostUnit = "flops", fixed_bytes: int = 0) -> None:
        handle = c.c_void_p()
        call("ckm_dataflow_create", name.encode(), _UNITS.index(cost_unit), fixed_bytes, c.byref(handle))
        self._handle, self._finished = handle, False

    @classmethod
    def _adopt(cls, handle: c.c_void_p) -> Graph:
        graph = cls.__new__(cls)
        graph._handle, graph._finished = handle, True
        return graph

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib.ckm_dataflow_free(self._handle)

    def __repr__(self) -> str:
        return f'<Graph "{self.name}": {lib.ckm_dataflow_op_count(self._handle)} operators>'

    def __reduce__(self) -> tuple[object, ...]:
        return Graph.parse, (self.to_json(),)  # pickled and copied as text; finished then

    def tensor(self, *, bytes: int, name: str = "", alias_of: int = -1) -> int:
        """Adds a tensor and returns its number. `alias_of`: the tensor that it is a view of."""
        index = int32()
        call("ckm_dataflow_add_tensor", self._handle, c.byref(CTensor(name.encode(), bytes, alias_of, alias_of >= 0)), c.byref(index))
        return index.value

    def op(
        self,
        *,
        cost: int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        name: str = "",
        kind: OpKind = "forward",
        workspace_bytes: int = 0,
        recomputable: bool = True,
        inplace: Sequence[tuple[int, int]] = (),
        module: str = "",
        source: str = "",
        load_bytes: int = 0,
    ) -> int:
        """Adds an operator and returns its number. `inplace` lists (input, output) pairs: the output may be written over the dead
        input. `module` and `source` are for people: see `Op`. An operator of kind `load` reads `load_bytes`; 0 is those of its output."""
        ins = (int32 * len(inputs))(*inputs)
        outs = (int32 * len(outputs))(*outputs)
        pairs = ((int32 * 2) * len(inplace))(*[(int32 * 2)(*pair) for pair in inplace])
        record = COp(
            name.encode(),
            _KINDS.index(kind),
            cost,
            workspace_bytes,
            not recomputable,
            len(ins),
            len(outs),
            len(pairs),
            c.cast(ins, c.POINTER(int32)),
            c.cast(outs, c.POINTER(int32)),
            c.cast(pairs, c.POINTER(int32 * 2)),
            module.encode(),
            source.encode(),
            load_bytes,
        )
        index = int32()
        call("ckm_dataflow_add_op", self._handle, c.byref(record), c.byref(index))
        return index.value

    def result(self, tensor: int) -> None:
        """Declares a tensor that must be live when a schedule ends."""
        call("ckm_dataflow_add_result", self._handle, tensor)

    @property
    def second_memory(self) -> SecondMemory | None:
        """Set it before the graph is finished; costs must be times."""
        r = CSecondMemory()
        if not lib.ckm_dataflow_get_second_memory(self._handle, c.byref(r)):
            return None
        limit = None if r.bytes < 0 else r.bytes
        return SecondMemory(r.out_bytes_per_second, r.in_bytes_per_second, r.latency_ns, limit, r.name.decode())

    @second_memory.setter
    def second_memory(self, memory: SecondMemory) -> None:
        limit = -1 if memory.bytes is None else memory.bytes
        record = CSecondMemory(memory.name.encode(), limit, memory.out_bytes_per_second, memory.in_bytes_per_second, memory.latency_ns)
        call("ckm_dataflow_set_second_memory", self._handle, c.byref(record))

    def finish(self) -> Graph:
        """Validates the graph; it is read-only afterwards. Called automatically when a finished graph is needed."""
        if not self._finished:
            call("ckm_dataflow_finish", self._handle)
            self._finished = True
        return self

    @property
    def handle(self) -> c.c_void_p:
        """The C library's object; the graph is finished first."""
        return self.finish()._handle

    @property
    def name(self) -> str:
        return lib.ckm_dataflow_name(self._handle).decode()

    @property
    def cost_unit(self) -> CostUnit:
        return _UNITS[lib.ckm_dataflow_cost_unit(self._handle)]

    @property
    def fixed_bytes(self) -> int:
        return lib.ckm_dataflow_fixed_bytes(self._handle)

    @property
    def total_cost(self) -> int:
        """Cost of running every operator once."""
        return lib.ckm_dataflow_total_cost(self.handle)

    @functools.cached_property
    def memory_floor(self) -> int:
        """Bytes that every schedule is proven to need, as `checkmate graph` shows them. The first call computes it in about 0.1 s."""
        floor = int64()
        call("ckm_min_budget_floor", self.handle, c.byref(floor))
        return floor.value

    @property
    def standing_bytes(self) -> int:
        """Bytes that are there at the end of every schedule: fixed bytes, inputs and results."""
        return lib.ckm_dataflow_standing_bytes(self.handle)

    @property
    def ops(self) -> list[Op]:
        return [self._op(i) for i in range(lib.ckm_dataflow_op_count(self._handle))]

    @property
    def tensors(self) -> list[Tensor]:
        records = (lib.ckm_dataflow_get_tensor(self._handle, i) for i in range(lib.ckm_dataflow_tensor_count(self._handle)))
        return [Tensor((r.name or b"").decode(), r.bytes, r.alias_of) for r in records]

    @property
    def results(self) -> list[int]:
        return [lib.ckm_dataflow_get_result(self._handle, i) for i in range(lib.ckm_dataflow_result_count(self._handle))]

    def producer(self, tensor: int) -> int | None:
        """The operator that produces a tensor; None for an input."""
        op = lib.ckm_dataflow_producer(self.handle, tensor)
        return None if op < 0 else op

    def _op(self, i: int) -> Op:
        r = lib.ckm_dataflow_get_op(self._handle, i)
        return Op(
            (r.name or b"").decode(),
            _KINDS[r.kind],
            r.cost,
            r.workspace_bytes,
            not r.run_once,
            tuple(r.inputs[k] for k in range(r.n_inputs)),
            tuple(r.outputs[k] for k in range(r.n_outputs)),
            tuple((r.inplace[k][0], r.inplace[k][1]) for k in range(r.n_inplace)),
            (r.module or b"").decode(),
            (r.source or b"").decode(),
            r.load_bytes,
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Graph:
        """Reads checkmate-graph JSON."""
        handle = c.c_void_p()
        call("ckm_dataflow_read", os.fsencode(path), c.byref(handle))
        return cls._adopt(handle)

    @classmethod
    def parse(cls, text: str) -> Graph:
        """Parses checkmate-graph JSON text."""
        handle, data = c.c_void_p(), text.encode()
        call("ckm_dataflow_parse", data, len(data), b"<text>", c.byref(handle))
        return cls._adopt(handle)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes checkmate-graph JSON, first to a temporary file."""
        call("ckm_dataflow_write", self.handle, os.fsencode(path))

    def to_json(self, *, places: bool = True) -> str:
        """The graph as checkmate-graph JSON text, the same for equal graphs. `places`: include modules and source lines."""
        second, loads = self.second_memory, any(op.kind == "load" for op in self.ops)
        return json.dumps(
            {
                "format": "checkmate-graph",
                "version": 2 if second or loads else 1,
                "name": self.name,
                "cost_unit": self.cost_unit,
                "fixed_bytes": self.fixed_bytes,
            }
            | ({"second_memory": {k: v for k, v in asdict(second).items() if v is not None}} if second else {})
            | {
                "tensors": [{"name": t.name, "bytes": t.bytes} | ({"alias_of": t.alias_of} if t.alias_of >= 0 else {}) for t in self.tensors],
                "ops": [
                    {
                        "name": op.name,
                        "kind": op.kind,
                        "cost": op.cost,
                        "workspace_bytes": op.workspace_bytes,
                        "recomputable": op.recomputable,
                        "inputs": op.inputs,
                        "outputs": op.outputs,
                        "inplace": op.inplace,
                    }
                    | ({"load_bytes": op.load_bytes} if op.load_bytes else {})
                    | ({"module": op.module} if places and op.module else {})
                    | ({"source": op.source} if places and op.source else {})
                    for op in self.ops
                ],
                "results": self.results,
            },
            separators=(",", ":"),
        )
