# SPDX-License-Identifier: Apache-2.0
"""What goes wrong on the way from a model to a plan, as one clear error each."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ..errors import CheckmateError, InfeasibleError
from .breaks import Graphs
from .joint import UnsupportedError


def require_static(module: fx.GraphModule, inputs: list[Any]) -> None:
    """UnsupportedError that names the dimensions that are symbols."""
    found = []
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        if node.op == "placeholder" and isinstance(value, torch.Tensor):
            found += [f"dimension {i} of {_source(node)} (now {_hint(size)})" for i, size in enumerate(value.shape) if not isinstance(size, int)]
    if not found and any(isinstance(value, (torch.SymInt, torch.SymFloat)) for value in inputs):
        found = ["a number that the model is called with"]
    if found:
        raise UnsupportedError(
            f"dynamic shapes cannot be planned, because bytes must be known: {', '.join(found)}. Compile with dynamic=False, do "
            "not call torch._dynamo.mark_dynamic, and pad to a few sizes: each is planned once"
        )


def _source(node: fx.Node) -> str:
    """The name that the model's own code has for an input."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", None)
    text = str(name() if callable(name) else name or node.name)
    match = re.fullmatch(r"L\['(\w+)'\]", text)
    return f"'{match[1] if match else text}'"


def _hint(size: object) -> str:
    hint = getattr(getattr(size, "node", None), "hint", None)
    return "unknown" if hint is None else str(hint)


class Guard:
    """Calls a compiled model. What the compiler cannot do is an UnsupportedError, or with `fallback` a warning, given
    once, after which the model runs as it is, without a budget."""

    def __init__(self, compiled: Callable[..., Any], original: Callable[..., Any], *, fallback: bool, graphs: Graphs | None) -> None:
        self.compiled, self.original, self.fallback, self.graphs = compiled, original, fallback, graphs
        self.fell_back = self.warned = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException

        if self.fell_back:
            return self.original(*args, **kwargs)
        try:
            return self.compiled(*args, **kwargs) if self.graphs is None else self._split(self.graphs, *args, **kwargs)
        except BackendCompilerFailed as error:
            inner = getattr(error, "inner_exception", error)
            if isinstance(inner, (InfeasibleError, ValueError)):
                raise inner from None
            failure = inner if isinstance(inner, CheckmateError) else _unsupported(inner)
        except UnsupportedError as error:
            failure = error
        except TorchDynamoException as error:
            failure = _unsupported(error)
        # Half a step cannot be taken back: a graph that has run has updated its statistics already.
        begun = self.graphs is not None and bool(self.graphs.held)
        if not self.fallback or begun or not isinstance(failure, UnsupportedError):
            raise failure
        warnings.warn(f"checkmate: the model runs without a budget: {failure}", RuntimeWarning, stacklevel=2)
        self.fell_back = True
        return self.original(*args, **kwargs)

    def _split(self, graphs: Graphs, *args: Any, **kwargs: Any) -> Any:
        """PyTorch runs a function that it cannot trace as it is, without a word."""
        from torch._dynamo.utils import counters

        frames = counters["frames"]
        before = frames["total"] - frames["ok"]
        graphs.begin(args, kwargs)
        try:
            outputs = self.compiled(*args, **kwargs)
        finally:
            graphs.end()
        if not graphs.held:
            raise UnsupportedError('nothing of the model can be traced, so that no budget holds; fallback="eager" runs it all the same')
        skipped = frames["total"] - frames["ok"] - before
        if skipped > 0 and not self.warned:
            self.warned = True
            warnings.warn(f"checkmate: {skipped} functions cannot be traced and are not planned: the budget does not hold for what they "
                          "compute. TORCH_LOGS=graph_breaks tells which", RuntimeWarning, stacklevel=4)  # fmt: skip
        return outputs


def _unsupported(error: BaseException) -> UnsupportedError:
    text = str(error).strip()
    reason = text.splitlines()[0] if text else type(error).__name__
    where = re.search(r'File "([^"]+)", line (\d+)', text.rpartition("from user code")[2])
    if where is not None and where[0] not in reason:
        reason += f" ({where[1]}:{where[2]})"
    failure = UnsupportedError(
        f'the model cannot be traced as one graph: {reason}. graph_breaks="split" plans its parts, fallback="eager" runs it without a budget'
    )
    failure.__cause__ = error
    return failure
