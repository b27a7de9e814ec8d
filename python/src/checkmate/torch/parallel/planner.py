# SPDX-License-Identifier: Apache-2.0
"""Training on devices that need not be there: each layout planned within the memory of a device, and its step simulated."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._pytree import tree_leaves
from typing_extensions import Unpack

from ...errors import CheckmateError, UnsupportedError
from ...planning import budget as sizes
from ...planning.frontier import size
from ..cost.collectives import on_ring
from ..distributed.fsdp import local
from ..memory import pipeline
from ..options import Options, Settings, checked
from ..predict import absent_device
from ..predict.joint_graph import joint_graph
from ..trace import branches, standins
from ..trace.phases import Phases
from . import balance, links
from .layouts import Layout, layouts
from .stages import MakeOptimizer, Sharded, StagePlan, imagined, output_of, plan_stage, resized, signature, without_data
from .table import ParallelPlans, Row, table
from .timing import pipeline_seconds

#: Seconds of each search, and the gap that is enough, unless they are given.
_SECONDS, _GAP = 2.0, 0.01


def _parts_of(model: nn.Module) -> list[nn.Module]:
    """A module that stands twice among the parts is two of them."""
    return [part for part in model._modules.values() if part is not None] if isinstance(model, nn.Sequential) else [model]


class _Planner:
    """What is known of all layouts of one model."""

    def __init__(self, model: nn.Module, inputs: Any, options: Options, limit: int, make_optimizer: MakeOptimizer | None,
                 styles: Mapping[str, Any], network: links.Network, schedule: str) -> None:  # fmt: skip
        self.model, self.inputs, self.options, self.limit, self.make_optimizer = without_data(model), inputs, options, limit, make_optimizer
        self.styles, self.network, self.schedule = dict(styles), network, schedule
        self._known: dict[object, StagePlan] = {}
        self._weighed: list[float] | None = None

    def row(self, layout: Layout) -> Row:
        """What a layout takes. What its tracing refuses is a row, too."""
        alone = layout.data if layout.sharded else layout.tensor
        try:
            with imagined(alone) if alone > 1 else contextlib.nullcontext():
                return self._row(layout)
        except (CheckmateError, ValueError, RuntimeError) as error:
            return Row(layout, why=str(error).strip().partition("\n")[0], refused=True)

    def _row(self, layout: Layout) -> Row:
        spread = self._spread(layout)
        inputs = resized(self.inputs, layout.micro_batch)
        if layout.pipeline == 1:
            return self._timed(layout, [self._of_stage(layout, spread, inputs, 0)], (self._parts,))
        parts = _parts_of(spread)
        edges: list[tuple[Any, ...]] = [inputs]
        signatures = [signature(part) for part in parts]
        made: dict[object, torch.Tensor] = {}
        for part, alike in zip(parts[:-1], signatures, strict=False):
            key = alike, [(t.shape, t.dtype) for t in tree_leaves(edges[-1]) if isinstance(t, torch.Tensor)]
            if repr(key) not in made:
                made[repr(key)] = output_of(part, edges[-1])
            edges.append((made[repr(key)],))

        def planned(ends: list[int]) -> list[StagePlan]:
            found: list[StagePlan] = []
            inner: dict[tuple[str, ...], StagePlan] = {}
            for stage, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
                alike, between = tuple(signatures[begin:end]), 0 < stage < len(ends) - 1
                # Stages between the ends that are alike have ever less in flight: the plan of the first one serves them all.
                plan = inner.get(alike) if between else None
                if plan is None:
                    plan = self._of_stage(layout, nn.Sequential(*parts[begin:end]), edges[begin], stage, alike)
                if between:
                    inner[alike] = plan
                found.append(plan)
            return found

        def slowest(ends: list[int]) -> tuple[tuple[int, float], int, bool]:
            plans = planned(ends)
            stage = max(range(len(plans)), key=lambda i: (plans[i].peak_bytes is None, plans[i].seconds))
            free = all(plan.peak_bytes is not None and plan.overhead == 0 for plan in plans)
            return (sum(plan.peak_bytes is None for plan in plans), plans[stage].seconds), stage, free

        ends = balance.improved(balance.even(self._weights(), layout.pipeline), slowest)
        return self._timed(layout, planned(ends), tuple(ends))

    @property
    def _parts(self) -> int:
        return len(_parts_of(self.model))

    def _spread(self, layout: Layout) -> nn.Module:
        """The model as the first device has it."""
        if layout.sharded:
            return Sharded(self.model, layout.data)
        if layout.tensor == 1:
            return self.model
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import parallelize_module

        spread, mesh = copy.deepcopy(self.model), init_device_mesh("cpu", (layout.tensor,))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Parallelize plan key")  # of parts that have no module of that name
            parallelize_module(spread, mesh, copy.deepcopy(self.styles))
        if all(local(p) is p for p in spread.parameters()):
            raise ValueError(f"no module is called as tensor= has it: {', '.join(map(repr, self.styles))}")
        return spread

    def _of_stage(self, layout: Layout, module: nn.Module, inputs: tuple[Any, ...], stage: int, alike: object = None) -> StagePlan:
        flight = pipeline.in_flight(self.schedule, stage, layout.pipeline, layout.micro_batches, outputs=False, losses=False)
        buckets = layout.data > 1 and not layout.sharded
        key = layout.tensor, layout.sharded and layout.data, buckets, layout.micro_batch, flight.order, flight.first, flight.last, alike
        if key not in self._known:
            link = self.network.of(layout.data if layout.sharded else layout.tensor)
            self._known[key] = plan_stage(module, inputs, flight, self.options, self.make_optimizer, self.limit, link, buckets=buckets)
        return self._known[key]

    def _weights(self) -> list[float]:
        """What each part takes of a step of one sample."""
        if self._weighed is None:
            others = standins.Standins()
            with absent_device.bytes_of(self.options.device), others.within(self.model):
                _traced, whole = joint_graph(
                    self.model, others.inputs(resized(self.inputs, 1)), replace(self.options, in_flight=None), None, {}, Phases()
                )
            self._weighed = [0.0] * self._parts
            for op in whole.graph.ops:
                first = op.module.partition(".")[0]
                self._weighed[int(first) if first.isdigit() else -1] += op.cost
        return self._weighed

    def _timed(self, layout: Layout, plans: list[StagePlan], ends: tuple[int, ...]) -> Row:
        """The row of a layout whose stages are planned."""
        missing = next((i for i, plan in enumerate(plans) if plan.peak_bytes is None), None)
        if missing is not None:
            where = "" if len(plans) == 1 else f"stage {missing}: "
            return Row(layout, ends=ends, why=f"{where}{plans[missing].why}")
        device, d, t, p = self.options.device, layout.data, layout.tensor, layout.pipeline
        assert device is not None
        transfer = self.network.of(p, stride=t * d).seconds(max(plan.sent_bytes for plan in plans)) if p > 1 else 0.0
        over = pipeline_seconds(self.schedule, [plan.forward for plan in plans], [plan.backward for plan in plans], layout.micro_batches,
                                transfer=transfer)  # fmt: skip
        exchanged, updated = [0.0] * p, [0.0] * p
        for i, plan in enumerate(plans):
            if d > 1 and not layout.sharded:
                whole = self.network.of(d, stride=t).seconds(on_ring(plan.gradient_bytes, d, reduced_and_gathered=True))
                exchanged[i] = max(0.0, whole - plan.backward)
            updated[i] = (2 * plan.held_bytes + plan.gradient_bytes) / (device.bytes_per_s * device.efficiency["stream"])
        busy = layout.micro_batches * max(plan.seconds for plan in plans)
        most = max(plans, key=lambda plan: plan.overhead)
        last = max(range(p), key=lambda i: over[i] + exchanged[i] + updated[i])
        return Row(layout, max(plan.peak_bytes or 0 for plan in plans), most.overhead, most.least_overhead,
                   over[last] + exchanged[last] + updated[last], max(0.0, 1 - busy / max(over)),
                   exchanged[last] + layout.micro_batches * plans[last].calls, ends)  # fmt: skip


def _shrinking(planner: _Planner, alike: list[Layout]) -> Iterator[Row]:
    """Rows of ever smaller micro-batches, for as long as these may gain anything."""
    best: float | None = None
    for layout in alike:
        row = planner.row(layout)
        yield row
        if row.step_seconds is not None:
            if row.overhead == 0 and (layout.pipeline == 1 or (best is not None and row.step_seconds >= best)):
                break
            best = row.step_seconds if best is None else min(best, row.step_seconds)


def plan_parallel(
    model: nn.Module | Sequence[nn.Module],
    inputs: Sequence[Any] | Mapping[str, Any],
    *,
    device: str,
    devices: int,
    batch: int,
    optimizer: MakeOptimizer | None = None,
    tensor: Mapping[str, Any] | None = None,
    sharded: bool = True,
    schedule: str = "1f1b",
    network: links.Network | None = None,
    budget: int | str | None = None,
    only: Callable[[Layout], bool] | None = None,
    show: Callable[[str], None] | None = print,
    **options: Unpack[Settings],
) -> ParallelPlans:
    """Every way to share a training step between devices: each with the least recomputation found within the memory of a device, what any
    schedule is proven to need, and the predicted time of a step. The fastest comes first. Nothing is run and nothing of the model's size
    is allocated; no process talks to another.

    model: a module, or the parts of one, each of which takes what the one before returned. Only parts, or the children of an nn.Sequential,
        can be the stages of a pipeline. It may be on the meta device.
        The last part returns the loss; if it returns other tensors, room is left for a loss of them, as `compile` does.
    inputs: a tuple of the first part's arguments, or a dict of a whole model's; tensors whose first dimension is that of the first tensor
        are taken for this many samples.
    device: such as "H100"; `checkmate devices` lists those that there are models of. devices: how many.
    batch: samples of a step, on all devices.
    optimizer: makes one of parameters, such as `lambda parameters: torch.optim.AdamW(parameters)`; for the bytes of its state.
    tensor: styles for `torch.distributed.tensor.parallel.parallelize_module`, such as {"*.up": ColwiseParallel()}; without, there is no
        tensor parallelism. Tried are all powers of two up to the devices of a node.
    sharded: whether FSDP2 is tried, one unit a block, gathered by the plan; only without tensor parallelism and pipeline, as
        `checkmate.torch.compile` has it.
    schedule: of pipelines, "1f1b" or "gpipe". Parts are shared out so that the slowest stage is as fast as is found.
    network: what devices send and receive with; without, that of the servers in which such devices are sold.
    budget: bytes of a device, such as "70GB", or a share of its memory, such as "90%"; without, its memory.
    only: whether a layout is to be planned, such as `lambda layout: layout.pipeline <= 4`.
    show: takes a line as each layout is planned, and the table.

    ValueError for what makes no sense, UnsupportedError where torch.distributed is in use. Ctrl-C ends the search and returns what is known.
    Each kind of stage takes a trace and a few searches of `time_limit` seconds (2 unless given): some minutes in all for a large model.
    Tried are all divisors of the devices that are powers of two as tensor groups, as stages all powers of two up to the parts, and the rest
    as copies; micro-batches as `ParallelPlans.notes` say.
    """
    if schedule not in ("1f1b", "gpipe"):
        raise ValueError(f'schedule must be "1f1b" or "gpipe", not {schedule!r}')
    for name, value in (("devices", devices), ("batch", batch)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be an integer, at least 1, not {value!r}")
    if isinstance(inputs, torch.Tensor) or not isinstance(inputs, (Sequence, Mapping)):
        raise TypeError("inputs must be a tuple of the model's arguments, such as (tokens,), or a dict of keyword arguments")
    if not dist.is_available():
        raise UnsupportedError("this PyTorch has no torch.distributed, whose calls are planned for")
    if dist.is_initialized():
        raise UnsupportedError("plan_parallel makes believe that there are other processes: call it where torch.distributed is not initialized")
    model = nn.Sequential(*model) if not isinstance(model, nn.Module) else getattr(model, "_orig_mod", model)  # of torch.compile
    if isinstance(inputs, Mapping) and isinstance(model, nn.Sequential):
        raise TypeError("the first part of a pipeline takes its inputs by position: give a tuple")
    target = absent_device.find(device, options)
    if target.memory_bytes == 0 and budget is None:
        raise ValueError(f'how much memory {target.name} has is not known: say budget="64GB" or such')
    standins.require_no_mode()
    standins.require_gradients(model, inputs)
    if budget in ("auto", sizes.LEAST) or (budget is not None and (sizes.share(budget) or (0, False))[1]):
        raise ValueError(f'budget="{budget}" is of a process that is here: give bytes, such as "70GB", or a share of the device\'s memory, "90%"')
    limit = target.memory_bytes if budget is None else sizes.in_bytes(budget, baseline_bytes=target.memory_bytes)
    resized(inputs, 1)  # ValueError for inputs without samples
    given: Any = {"time_limit": _SECONDS, "gap": _GAP, "costs": "estimate", "cache": False} | options
    settings = replace(checked("100%", given, model=model, function=plan_parallel), device=target)
    branches.as_in_eager_mode(model)
    served = network or links.usual(target)
    planner = _Planner(model, inputs if isinstance(inputs, Mapping) else tuple(inputs), settings, limit, optimizer, tensor or {}, served, schedule)
    if tensor and devices % 2 == 0 and served.per_node > 1:
        with imagined(2):
            planner._spread(Layout(1, 2, 1, 1, 1))  # ValueError for unknown styles
    parts = planner._parts
    tell = show or (lambda _line: None)
    wanted = list(layouts(devices, batch, tensor=[t for t in range(1, served.per_node + 1) if t & (t - 1) == 0] if tensor else [1], parts=parts,
                          sharded=sharded))  # fmt: skip
    if not wanted:
        raise ValueError(f"{batch} samples cannot be shared by {devices} devices: choose a batch that is a multiple of them")
    wanted = [alike for every in wanted if (alike := [layout for layout in every if only is None or only(layout)])]
    rows: list[Row] = []
    left = len(wanted)
    try:
        with torch.enable_grad():
            for number, alike in enumerate(wanted):
                for row in _shrinking(planner, alike):
                    rows.append(row)
                    verdict = row.why or f"{row.samples_per_second:.1f} samples/s, {size(row.peak_bytes or 0)}"
                    tell(f"{number + 1} of {len(wanted)}: {row.layout}: {verdict}")
                left -= 1
    except KeyboardInterrupt:
        pass
    rows.sort(key=lambda row: (row.step_seconds is None, row.step_seconds or 0.0))
    kinds = sorted({str(p.dtype).removeprefix("torch.") for p in planner.model.parameters()})
    notes = _notes(target.name, served, parts, kinds, tensor is not None)
    if left:
        notes.insert(0, f"interrupted: {left} of {len(wanted)} ways were not planned, or not all of their micro-batches")
    result = ParallelPlans(rows, limit, notes)
    for line in ["", *table(rows, limit), "", *notes]:
        tell(line)
    return result


def _notes(name: str, network: links.Network, parts: int, kinds: list[str], tensor: bool) -> list[str]:
    inside, between = (f"{link.bytes_per_s / 1e9:.3g} GB/s and {link.start_s * 1e6:.0f} us a call" for link in (network.inside, network.between))
    lines = [
        "nothing was measured; this is assumed:",
        f"  time of a pass: for each call the longer of its arithmetic and its traffic on {name}, as `explain` with a device has it;",
        f"        parameters are {' and '.join(kinds)}",
        f"  network: {inside} within a node of {network.per_node}, {between} between nodes; rings, one call at a time. Devices of one tensor",
        "        group lie next to each other, then copies, then stages",
        "  tensor parallelism and FSDP2 wait for each of their calls; gradients between copies are hidden behind the last backward pass;",
        "        stages send while they compute. An update reads and writes parameters and the optimizer's state once",
        "  exchange: calls between processes that nothing hides",
        "  bytes: those of tensors; not workspaces of kernels, CUDA's context or fragmentation",
        "  micro-batches are made smaller until nothing is computed again and, in a pipeline, a step takes no less",
        "  recompute, at least: of the stage with most. Interior stages that are alike have the plan of the first of them",
    ]
    if parts == 1:
        lines.append("  no pipelines: the model is no nn.Sequential and was not given as parts")
    if not tensor:
        lines.append("  no tensor parallelism: no styles were given as tensor=")
    return lines
