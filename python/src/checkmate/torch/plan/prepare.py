# SPDX-License-Identifier: Apache-2.0
"""A joint graph on its way to a dataflow graph: its calls rewritten, measured and marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import fx

from ...errors import UnsupportedError
from ...graph import SecondMemory
from ...planning import plan_cache
from .. import user_code
from ..cost import collectives, cost, device_model
from ..distributed import exchange, ranks, shards
from ..fx import dataflow, devices, fusion, partition
from ..fx.places import model_called
from ..fx.symbols import materialize
from ..memory import caching_allocator, libraries, peak, pipeline
from ..offload import calls, choice
from ..options import UNNAMED, Options
from ..rewrite import copies, dropout, from_data, loads, policies, split_gradients
from ..rewrite.buffer_updates import unread
from ..rewrite.views import reseat
from ..trace import phases


def device_of(module: fx.GraphModule) -> torch.device:
    """Where the step runs: an accelerator, if any tensor is on one."""
    values = [node.meta.get("val") for node in module.graph.nodes]
    devices = [value.device for value in values if isinstance(value, torch.Tensor)]
    return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))


def _check_offload(device: torch.device, nodes: list[fx.Node]) -> None:
    if device.type != "cpu":
        raise UnsupportedError(f"offload= moves tensors of the CPU only so far, and the model is on {device}: leave it out there")
    if ranks.size() > 1 or any(node.target is shards.GATHER for node in nodes):
        raise UnsupportedError("offload= is for one process only so far: leave it out in several")


class Traced:
    """A joint graph, ready to be made a dataflow graph of."""

    def __init__(self, module: fx.GraphModule, num_fwd_outputs: int, options: Options, name: str, *, loss_outside: bool = True,
                 stage: pipeline.Stage | None = None, frozen: Mapping[int, str] | None = None) -> None:  # fmt: skip
        nodes, device = list(module.graph.nodes), device_of(module)
        if device.type == "meta":
            raise UnsupportedError('the model is on the meta device, where nothing runs: explain(..., device="H100") or such plans without data')
        if options.store is not None:
            _check_offload(device, nodes)
        libraries.check(nodes, device)
        self.on_cuda = devices.on_cuda(device)
        if options.counts == "reserved" and not self.on_cuda:
            raise UnsupportedError(f'counts="reserved" is for PyTorch\'s allocator on CUDA, and the model is on {device}: leave it out')
        if options.counts == "reserved" and caching_allocator.expandable_segments() is None:
            raise UnsupportedError(
                'counts="reserved" knows the allocator with expandable_segments or without, not the other settings of PYTORCH_ALLOC_CONF'
            )
        kept = libraries.kept_bytes(nodes, device)
        options = replace(options, fixed_bytes=options.fixed_bytes + kept, held_now_bytes=options.held_now_bytes + kept)
        self.module, self.num_fwd_outputs, self.options, self.name = module, num_fwd_outputs, options, name
        self.workspace: dict[str, int] = {}
        self._speeds: tuple[int, int, int] | None = None
        self.other_output_bytes = 0  # of the outputs that keep_outputs counts
        self.title = options.title if options.title != UNNAMED else model_called() or UNNAMED
        self.measured = (
            cost.Measured(plan_cache.directory() if options.cache else None) if options.costs == "measure" and options.device is None else None
        )
        self.loss_outside = loss_outside and (stage is None or stage.loss_outside)
        self.stage: pipeline.Stage | None = None
        self.replay = options.random == "replay" and options.compiler == "eager"
        from_data.fold(module, generated=options.compiler != "eager")
        materialize(module)
        exchange.synchronous(module)
        shards.place(module)
        if options.compiler == "eager":
            copies.apply(module)
        dropout.rewrite(module, decomposed=options.compiler == "inductor")
        if options.compiler == "eager":
            split_gradients.apply(module)
            unread(module)
        if not options.keep_outputs:
            dataflow.drop_outputs(module, num_fwd_outputs)
        dataflow.snapshot_mutated(module, num_fwd_outputs)
        reseat(module)
        policies.apply(module, num_fwd_outputs, options.checkpoint_policy, replay=self.replay, store=options.store)
        if options.weights is not None:
            loads.apply(module, num_fwd_outputs, options.weights, frozen or {})
        # Of the copies that policies ask for, which the planner does not see: all of them, as if they were there at one time.
        self.left_bytes = sum(_moved_bytes(node) for node in module.graph.nodes if node.target is calls.leave)
        if self.measured is not None:
            options.say(f"measuring what the calls of {name} cost")
            with phases.part(phases.MEASURING):
                self.measured.prepare(module.graph.nodes, lambda done, of: options.say(f"measured {done} of {of} calls"))
            if unknown := self.measured.estimated(module.graph.nodes):
                user_code.warn(
                    f"{', '.join(unknown)} cannot be run on operands made up for it, so its time is estimated, and no memory inside of it "
                    "is counted: a step may exceed the budget by as much"
                )
        if stage is not None:
            self.stage = self._sized(stage)

    def _sized(self, stage: pipeline.Stage) -> pipeline.Stage:
        """With what only the joint graph tells."""
        nodes = list(self.module.graph.nodes)
        given = [node for node in nodes[-1].args[0][: self.num_fwd_outputs] if isinstance(node, fx.Node)]
        taken = [node.meta.get("val") for node in nodes if node.op == "placeholder" and not dataflow.is_tangent(node)]
        inputs = {dataflow.storage_key(value): dataflow.storage_bytes(value) for value in taken if isinstance(value, torch.Tensor)}
        counted = sum(inputs.values()) - stage.own_inputs  # a part of a batch may be traced with the storage of the whole, or without
        made = [node for node in given if node not in dataflow.updates(self.module, self.num_fwd_outputs)]
        outputs = {dataflow.storage_key(v): dataflow.storage_bytes(v) for v in (node.meta["val"] for node in made) if isinstance(v, torch.Tensor)}
        tangents = [node.meta["val"] for node in nodes if dataflow.is_tangent(node)]
        return replace(stage, inputs=max(0, stage.inputs - counted), outputs=sum(size for key, size in outputs.items() if key not in inputs),
                       output_gradients=sum(dataflow.storage_bytes(value) for value in tangents if isinstance(value, torch.Tensor)),
                       loss=dataflow.LossOutside.of(nodes) if self.loss_outside else dataflow.LossOutside())  # fmt: skip

    def reserved(self, model: dataflow.Joint, halves: partition.Halves) -> int | None:
        """What the allocator takes from the GPU; None where there is none, or its rules are others."""
        expandable = caching_allocator.expandable_segments()
        return None if expandable is None or not self.on_cuda else peak.reserved_bytes(model, halves, self.workspace, expandable=expandable)

    def _cost(self, node: fx.Node) -> tuple[int, int]:
        device, link = self.options.device, self.options.link
        if node.target in (calls.leave, calls.come_back, calls.load):
            nanoseconds, extra = self._transfer(node), 0
        elif device is None:
            nanoseconds, extra = (self.measured or cost.estimate)(node)
        else:
            nanoseconds, extra = (link and collectives.cost(node, link)) or device_model.nanoseconds(node, device)
        self.workspace[node.name] = extra
        return nanoseconds, extra

    def _link(self) -> tuple[int, int, int]:
        options = self.options
        assert options.store is not None
        if self._speeds is None:
            self._speeds = choice.speeds(options.store, options.offload_speed, cache=options.cache, say=options.say)
        return self._speeds

    def _second_memory(self, most_bytes: int) -> SecondMemory:
        assert self.options.store is not None
        out, back, latency = self._link()
        return SecondMemory(out, back, latency, choice.room(self.options.store, most_bytes, self.left_bytes), self.options.store.where)

    def _transfer(self, node: fx.Node) -> int:
        """Nanoseconds of one that a policy asks for, or of a weight."""
        out, back, latency = self._link()
        return latency + -(-_moved_bytes(node) * 10**9 // (out if node.target is calls.leave else back))

    def _fused(self) -> dict[fx.Node, tuple[fx.Node, ...]]:
        nodes = list(self.module.graph.nodes)
        _forward, backward = dataflow.sides(nodes, list(nodes[-1].args[0][: self.num_fwd_outputs]))
        return fusion.fused(nodes, set(backward))

    def build(self, *, reserve_bytes: int = 0) -> dataflow.Joint:
        """`reserve_bytes`: what has to be free between the forward and the backward pass."""
        loss = dataflow.LossOutside.of(list(self.module.graph.nodes)) if self.loss_outside else dataflow.LossOutside()
        fused = self._fused() if self.options.compiler == "inductor" else None
        return dataflow.build(self.module, self.num_fwd_outputs, self._cost, name=self.title, fixed_bytes=self.options.fixed_bytes,
                           replay=self.replay, overwrite=self.options.compiler == "eager", reserve_bytes=reserve_bytes,
                           loss=loss, fused=fused, store=self.options.store,
                           second_memory=None if self.options.store is None else self._second_memory)  # fmt: skip


def _moved_bytes(node: fx.Node) -> int:
    """Of a transfer that a policy asks for."""
    nodes = node.all_input_nodes if node.target is calls.leave else [node]
    values = [value for n in nodes for value in dataflow.tensors(n.meta["val"]) if value is not None]
    return sum({dataflow.storage_key(v): dataflow.storage_bytes(v) for v in values}.values())


def trace(module: fx.GraphModule, num_fwd_outputs: int, options: Options, name: str, *, loss_outside: bool = True,
          stage: pipeline.Stage | None = None, frozen: Mapping[int, str] | None = None) -> Traced:  # fmt: skip
    """Marks in the module what may be computed again, and measures its calls. `name` is for messages. `loss_outside`: whether the
    caller makes a loss of outputs that are no scalars, and needs room for it. `stage`: of a pipeline.
    `frozen`: names of the inputs that are weights in the second memory, by their numbers."""
    return Traced(module, num_fwd_outputs, options, name, loss_outside=loss_outside, stage=stage, frozen=frozen)
