# SPDX-License-Identifier: Apache-2.0
"""The joint graph of a model's step, which is traced and not run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from ...errors import CheckmateError
from ..compiler import Backend
from ..cost import device_model
from ..failures import Guard
from ..fx import dataflow
from ..options import Options
from ..plan.prepare import Traced, trace
from ..rewrite import attention, casts
from ..trace import outputs, phases, standins
from ..trace import settings as torchs


class _TracedError(Exception):
    """Ends a compilation whose joint graph is all that was wanted."""


def joint_graph(model: Callable[..., Any], inputs: Sequence[Any] | Mapping[str, Any], options: Options, loss: outputs.Loss,
            kernels: dict[fx.Node, attention.Kernel], spent: phases.Phases) -> tuple[Traced, dataflow.Joint]:  # fmt: skip
    """`kernels` is given those that attention is traced as on a GPU that you do not have, `spent` the seconds."""
    found: list[tuple[Traced, dataflow.Joint]] = []

    class Tracer(Backend):
        def partition(self, module: fx.GraphModule, _inputs: Any, *, num_fwd_outputs: int, **_hints: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
            with self.at_upper_ends(module):
                casts.merge(module, num_fwd_outputs, self._parameters)
                within = replace(options, fixed_bytes=options.fixed_bytes + self._around.held_bytes)
                with phases.part(phases.REWRITING):
                    traced = trace(module, num_fwd_outputs, within, "the model", stage=self._stage, frozen=self._frozen)
                    whole = traced.build()
                    if options.keep_outputs and traced.stage is None:
                        traced.other_output_bytes = dataflow.other_output_bytes(whole.module, traced.num_fwd_outputs)
                    found.append((traced, whole))
            raise _TracedError

        def _without_gradients(self, compiler: Callable[..., Any]) -> Callable[..., Any]:
            def compile_nothing(*_arguments: Any, **_options: Any) -> Any:
                raise ValueError(standins.NOTHING_TRACED)

            return compile_nothing

        def _compile_traced(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            if options.device is not None:
                device_model.require(module)
                if options.device.is_gpu:
                    attention.replace(module, kernels, flash=options.device.flash_attention)
            return super()._compile_traced(module, inputs)

    whole = model

    def traced(*args: Any, **kwargs: Any) -> Any:
        tracer = Tracer(options, None, loss, whole)
        tracer.phases, tracer.arguments = spent, (args, kwargs)
        options.say("tracing the model: Dynamo")
        with spent.counted(phases.DYNAMO):
            return torch.compile(outputs.traced(model, loss), backend=tracer, fullgraph=True, dynamic=False)(*args, **kwargs)

    if getattr(model, "_compiled_call_impl", None) is not None:  # compiled in place
        model = model._call_impl  # type: ignore[attr-defined]
    guard = Guard(traced, model, fallback=False, graphs=None, advice=False)
    try:
        with torchs.during_call():
            guard(**inputs) if isinstance(inputs, Mapping) else guard(*inputs)
    except CheckmateError:
        if not found:
            raise
    if not found:
        raise ValueError(standins.NOTHING_TRACED)
    return found[0]
