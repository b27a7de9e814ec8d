# SPDX-License-Identifier: Apache-2.0
"""A joint graph on its way to a dataflow graph: its calls rewritten, measured and marked."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import fx

from ..errors import UnsupportedError
from ..planning import plan_cache
from . import (
    collectives,
    copies,
    cost,
    devices,
    dropout,
    exchange,
    from_data,
    fusion,
    gathered,
    joint,
    libraries,
    modelled,
    partition,
    peak,
    phases,
    pipeline,
    policies,
    reserved,
    shards,
)
from .options import UNNAMED, Options
from .places import model_called
from .symbols import materialize
from .updates import unread
from .views import reseat


def device_of(module: fx.GraphModule) -> torch.device:
    """Where the step runs: an accelerator, if any tensor is on one."""
    values = [node.meta.get("val") for node in module.graph.nodes]
    devices = [value.device for value in values if isinstance(value, torch.Tensor)]
    return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))


class Traced:
    """A joint graph, ready to be made a dataflow graph of."""

    def __init__(self, module: fx.GraphModule, num_fwd_outputs: int, options: Options, name: str, *, loss_outside: bool = True,
                 stage: pipeline.Stage | None = None) -> None:  # fmt: skip
        nodes, device = list(module.graph.nodes), device_of(module)
        if device.type == "meta":
            raise UnsupportedError('the model is on the meta device, where nothing runs: explain(..., device="H100") or such plans without data')
        libraries.check(nodes, device)
        self.on_cuda = devices.on_cuda(device)
        if options.counts == "reserved" and not self.on_cuda:
            raise UnsupportedError(f'counts="reserved" is for PyTorch\'s allocator on CUDA, and the model is on {device}: leave it out')
        if options.counts == "reserved" and reserved.expandable_segments() is None:
            raise UnsupportedError(
                'counts="reserved" knows the allocator with expandable_segments or without, not the other settings of PYTORCH_ALLOC_CONF'
            )
        kept = libraries.kept_bytes(nodes, device)
        options = replace(options, fixed_bytes=options.fixed_bytes + kept, held_now_bytes=options.held_now_bytes + kept)
        self.module, self.num_fwd_outputs, self.options, self.name = module, num_fwd_outputs, options, name
        self.workspace: dict[str, int] = {}
        self.beside_loss_bytes = 0  # of the outputs that keep_outputs counts
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
            gathered.apply(module)
            unread(module)
        if not options.keep_outputs:
            joint.drop_outputs(module, num_fwd_outputs)
        joint.snapshot_mutated(module, num_fwd_outputs)
        reseat(module)
        policies.apply(module, num_fwd_outputs, options.checkpoint_policy, replay=self.replay)
        if self.measured is not None:
            options.say(f"measuring what the calls of {name} cost")
            with phases.part(phases.MEASURING):
                self.measured.prepare(module.graph.nodes, lambda done, of: options.say(f"measured {done} of {of} calls"))
        if stage is not None:
            self.stage = self._sized(stage)

    def _sized(self, stage: pipeline.Stage) -> pipeline.Stage:
        """With what only the joint graph tells."""
        nodes = list(self.module.graph.nodes)
        given = [node for node in nodes[-1].args[0][: self.num_fwd_outputs] if isinstance(node, fx.Node)]
        taken = [node.meta.get("val") for node in nodes if node.op == "placeholder" and not joint.is_tangent(node)]
        inputs = {joint.storage_key(value): joint.storage_bytes(value) for value in taken if isinstance(value, torch.Tensor)}
        counted = sum(inputs.values()) - stage.own_inputs  # a part of a batch may be traced with the storage of the whole, or without
        made = [node for node in given if node not in joint.updates(self.module, self.num_fwd_outputs)]
        outputs = {joint.storage_key(v): joint.storage_bytes(v) for v in (node.meta["val"] for node in made) if isinstance(v, torch.Tensor)}
        tangents = [node.meta["val"] for node in nodes if joint.is_tangent(node)]
        return replace(stage, inputs=max(0, stage.inputs - counted), outputs=sum(size for key, size in outputs.items() if key not in inputs),
                       output_gradients=sum(joint.storage_bytes(value) for value in tangents if isinstance(value, torch.Tensor)),
                       loss=joint.LossOutside.of(nodes) if self.loss_outside else joint.LossOutside())  # fmt: skip

    def reserved(self, model: joint.Joint, halves: partition.Halves) -> int | None:
        """What the allocator takes from the GPU; None where there is none, or its rules are others."""
        expandable = reserved.expandable_segments()
        return None if expandable is None or not self.on_cuda else peak.reserved_bytes(model, halves, self.workspace, expandable=expandable)

    def _cost(self, node: fx.Node) -> tuple[int, int]:
        device, link = self.options.device, self.options.link
        if device is None:
            nanoseconds, extra = (self.measured or cost.estimate)(node)
        else:
            nanoseconds, extra = (link and collectives.cost(node, link)) or modelled.nanoseconds(node, device)
        self.workspace[node.name] = extra
        return nanoseconds, extra

    def _fused(self) -> dict[fx.Node, tuple[fx.Node, ...]]:
        nodes = list(self.module.graph.nodes)
        _forward, backward = joint.sides(nodes, list(nodes[-1].args[0][: self.num_fwd_outputs]))
        return fusion.fused(nodes, set(backward))

    def build(self, *, reserve_bytes: int = 0) -> joint.Joint:
        """`reserve_bytes`: what has to be free between the forward and the backward pass."""
        loss = joint.LossOutside.of(list(self.module.graph.nodes)) if self.loss_outside else joint.LossOutside()
        fused = self._fused() if self.options.compiler == "inductor" else None
        return joint.build(self.module, self.num_fwd_outputs, self._cost, name=self.title, fixed_bytes=self.options.fixed_bytes,
                           replay=self.replay, overwrite=self.options.compiler == "eager", reserve_bytes=reserve_bytes,
                           loss=loss, fused=fused)  # fmt: skip


def trace(module: fx.GraphModule, num_fwd_outputs: int, options: Options, name: str, *, loss_outside: bool = True,
          stage: pipeline.Stage | None = None) -> Traced:  # fmt: skip
    """Marks in the module what may be computed again, and measures its calls. `name` is for messages. `loss_outside`: whether the
    caller makes a loss of outputs that are no scalars, and needs room for it. `stage`: of a pipeline."""
    return Traced(module, num_fwd_outputs, options, name, loss_outside=loss_outside, stage=stage)
