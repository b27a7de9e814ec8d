# SPDX-License-Identifier: Apache-2.0
"""One step run several ways from the same state, and where they differ: what `verify=True` does before the first step.

Eager mode; what Dynamo traces of it, run as it is; that through AOTAutograd, as PyTorch's backend "aot_eager" runs it; and the
plan. Each way computes the outputs, the gradients and the buffers; then buffers, arguments, the attributes of modules and random
generators are what they were. Results wait in main memory. Gradients go nowhere: hooks that wait for them do not run.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ...errors import CheckmateError
from ..trace import outputs

Call = Callable[..., Any]

#: Of one run, by name: outputs, gradients (None where there is none), and buffers and arguments that changed.
Values = dict[str, "torch.Tensor | object"]


class VerificationError(CheckmateError):
    """The plan computes something else than PyTorch does: a bug of this package."""


@dataclass(frozen=True)
class Difference:
    """A value that is not what eager mode computes. `what`: "gradient of layers.3.mlp.weight". `source`: "Dynamo",
    "AOTAutograd" or "ours", the first to differ. `largest`: of the differences of elements; `scale`: of the elements."""

    what: str
    source: str
    largest: float
    scale: float

    def __str__(self) -> str:
        return f"{self.what} by up to {self.largest:.2g}, where elements are up to {self.scale:.2g}"


@dataclass(frozen=True)
class Verification:
    """What the first step computed, `values` in all: those that are not bit for bit eager mode's, and why. `corrected`: those
    that PyTorch's tracing changes and the plan does not."""

    values: int
    differences: list[Difference] = field(default_factory=list)
    corrected: list[str] = field(default_factory=list)
    deterministic: bool = True
    seconds: float = 0.0

    def by(self, source: str) -> list[Difference]:
        return [d for d in self.differences if d.source == source]

    def __str__(self) -> str:
        if not self.differences:
            return f"all {self.values} values are eager mode's, bit for bit"
        parts = []
        for source in ("Dynamo", "AOTAutograd", "ours"):
            if found := self.by(source):
                worst = max(found, key=lambda d: d.largest)
                parts.append(f"{len(found)} by {source}, most {worst}")
        unsure = "" if self.deterministic else "; eager mode itself differs from run to run"
        return f"{len(self.differences)} of {self.values} values are not eager mode's: {'; '.join(parts)}{unsure}"


def _generators() -> dict[str, Any]:
    """The state of every generator that a model may draw from."""
    states: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        states["numpy"] = sys.modules["numpy"].random.get_state()
    return states


def _set_generators(states: dict[str, Any]) -> None:
    torch.set_rng_state(states["torch"])
    random.setstate(states["python"])
    if "cuda" in states:
        torch.cuda.set_rng_state_all(states["cuda"])
    if "numpy" in states:
        sys.modules["numpy"].random.set_state(states["numpy"])


def _modules(model: Any) -> torch.nn.ModuleDict | torch.nn.Module:
    """The model; of a function, the modules that it is a method of or names, by those names."""
    if isinstance(model, torch.nn.Module):
        return model
    if isinstance(model, functools.partial):
        return _modules(model.func)
    code, found = getattr(model, "__code__", None), {"self": getattr(model, "__self__", None)}
    if code is not None:
        cells = zip(code.co_freevars, getattr(model, "__closure__", None) or (), strict=False)
        found |= {name: model.__globals__[name] for name in code.co_names if name in model.__globals__}
        found |= {name: cell.cell_contents for name, cell in cells}
    return torch.nn.ModuleDict({name: value for name, value in found.items() if isinstance(value, torch.nn.Module)})


class _Attributes:
    """What Python keeps in modules: counters, caches, lists. Tensors are kept elsewhere."""

    def __init__(self, model: torch.nn.Module) -> None:
        modules = list(model.modules())
        plain = (list, dict, set)
        self._kept = [(vars(m), dict(vars(m)), {k: copy.copy(v) for k, v in vars(m).items() if isinstance(v, plain)}) for m in modules]

    def restore(self) -> None:
        for now, before, contents in self._kept:
            for name in [name for name in now if name not in before]:
                del now[name]
            for name, value in before.items():
                if now.get(name) is not value:
                    now[name] = value
            for name, content in contents.items():
                value = before[name]
                if not _same_items(value, content):
                    value.clear()
                    value.extend(content) if isinstance(value, list) else value.update(content)


def _same_items(value: Any, content: Any) -> bool:
    if len(value) != len(content):
        return False
    if isinstance(value, dict):
        return all(k in value and value[k] is v for k, v in content.items())
    if isinstance(value, list):
        return all(a is b for a, b in zip(value, content, strict=True))
    return bool(value == content)


class _State:
    """What a step starts from, and may change."""

    def __init__(self, model: object, args: Any, kwargs: Any, names: list[str] | None = None) -> None:
        module = _modules(model)
        self.parameters: dict[str, torch.Tensor] = dict(module.named_parameters())
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        names = names or [f"argument {i}" for i in range(len(given))]
        self.parameters |= {n: t for n, t in zip(names, given, strict=True) if isinstance(t, torch.nn.Parameter) and not _among(t, self.parameters)}
        self.held: dict[str, torch.Tensor] = {f"buffer {name}": t for name, t in module.named_buffers()}
        self.held |= {n: t for n, t in zip(names, given, strict=True) if not isinstance(t, torch.nn.Parameter) and not _among(t, self.held)}
        self.before = {name: _stored(t) for name, t in self.held.items()}
        self._versions = {name: t._version for name, t in self.parameters.items()}
        self._attributes, self._generators = _Attributes(module), _generators()
        self._args, self._kwargs = args, kwargs

    def arguments(self) -> tuple[Any, Any]:
        """The call's arguments, cut off from what the caller computed them from."""

        def leaf(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
                return value
            return value.detach().requires_grad_(value.requires_grad)

        made: tuple[Any, Any] = tree_map(leaf, (self._args, self._kwargs))
        return made

    def now(self) -> Values:
        """Buffers and arguments."""
        self._attributes.restore()  # which buffers there are
        for name, parameter in self.parameters.items():
            if parameter._version != self._versions[name]:
                raise VerificationError(f"verify=True: the model changes its parameter {name} in its forward pass, which cannot be undone")
        return {name: self.before[name] if self._as_before(name) else _stored(t) for name, t in self.held.items()}

    def _as_before(self, name: str) -> bool:
        """By content: what compiled graphs write need not count as a change of the tensor's version."""
        return torch.equal(self.held[name].detach().to("cpu"), self.before[name])

    def restore(self) -> None:
        self._attributes.restore()
        _set_generators(self._generators)
        with torch.no_grad():
            for name, tensor in self.held.items():
                if not self._as_before(name):
                    tensor.copy_(self.before[name])


def _among(tensor: torch.Tensor, named: Mapping[str, torch.Tensor]) -> bool:
    return any(tensor is other for other in named.values())


def _stored(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", copy=True)


@contextlib.contextmanager
def _backward_context(autocast: bool) -> Iterator[None]:
    """Backward passes are not under autocast unless the user's are."""
    with contextlib.ExitStack() as stack:
        for device in ("cpu", "cuda"):
            if not autocast and torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


def _differentiated(value: object) -> bool:
    """Whether an output of the plan may be differentiated."""
    return isinstance(value, torch.Tensor) and value.requires_grad and type(value.grad_fn).__name__ != "_UndifferentiatedBackward"


def _leaves(roots: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    """The tensors that gradients of the roots arrive at."""
    stack, seen, found = [root.grad_fn for root in roots], set(), {}
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found[id(node.variable)] = node.variable
        stack.extend(parent for parent, _ in node.next_functions)
    return found


class Verifier:
    """Verifies the first step of a model. `ours` runs the plan, `original` is what was compiled, `model` holds its state."""

    def __init__(self, ours: Call, original: Call, model: object, *, whole: bool, autocast_backward: bool) -> None:
        self.ours, self.original, self.model, self.whole, self.autocast_backward = ours, original, model, whole, autocast_backward
        self.unplanned: Call | None = None  # our tracing without a plan
        self.names: Callable[[Any], list[str]] | None = None  # of the tensors among the arguments
        self.begins_with_dynamo = True  # else `original` is a graph of Dynamo's
        self._roots: list[int] | None = None
        self._names: dict[int, str] = {}

    def _traced(self, backend: Any) -> Call:
        call: Call = torch.compile(outputs.traced(self.original, "all"), backend=backend, fullgraph=self.whole, dynamic=False)
        return call

    def __call__(self, args: Any, kwargs: Any) -> Verification:
        """Runs the step every way; what it starts from is the same afterwards. VerificationError where ours is at fault."""
        begin = time.perf_counter()
        state = _State(self.model, args, kwargs, None if self.names is None else self.names(args))
        self._roots = None
        ours = self._values(self.ours, state)
        aot = self._values(self._traced("aot_eager"), state)
        eager = self._values(self.original, state)
        dynamo = self._values(self._traced("eager"), state) if self.begins_with_dynamo else eager
        suspects = [name for name in ours if all(_apart(ours, other, name) for other in (aot, dynamo, eager))]
        deterministic = True
        if suspects and self.unplanned is not None:  # where ours puts tracing right, the rest is as tracing has it
            aot = {**aot, **{name: value for name, value in self._values(self.unplanned, state).items() if name in suspects}}
            suspects = [name for name in suspects if _apart(ours, aot, name)]
        if suspects:
            again = self._values(self.original, state)
            deterministic = not any(_apart(again, eager, name) for name in eager)
        runs = (ours, aot, dynamo, eager)
        names = [name for name in {**eager, **ours} if any(run.get(name) is not state.before.get(name) for run in runs) or name not in state.before]
        found, corrected = [], []
        for name in names:
            if not _apart(ours, eager, name):
                if _apart(aot, eager, name):
                    corrected.append(name)
                continue
            source = "ours" if name in suspects else "Dynamo" if _apart(dynamo, eager, name) else "AOTAutograd"
            found.append(Difference(name, source, *_measure(ours.get(name), eager.get(name))))
        made = Verification(len(names), found, corrected, deterministic, time.perf_counter() - begin)
        if suspects and deterministic:
            raise VerificationError(
                f"verify=True: the plan differs from PyTorch's own tracing, which is a bug of checkmate's: {made}. Please report it with the model; "
                "without verify=True it runs all the same"
            )
        return made

    def _values(self, run: Call, state: _State) -> Values:
        state.restore()
        torch.clear_autocast_cache()
        args, kwargs = state.arguments()
        try:
            outputs = tree_leaves(run(*args, **kwargs))
            if self._roots is None:  # ours comes first
                self._roots = [i for i, value in enumerate(outputs) if _differentiated(value)]
            roots = [outputs[i] for i in self._roots if isinstance(outputs[i], torch.Tensor) and outputs[i].requires_grad]
            found: Values = {f"output {i}": _stored(v) if isinstance(v, torch.Tensor) else v for i, v in enumerate(outputs)}
            found |= self._gradients(roots, state, (args, kwargs))
            del outputs, roots
            return found | state.now()
        finally:
            state.restore()
            torch.clear_autocast_cache()

    def _gradients(self, roots: list[torch.Tensor], state: _State, arguments: Any) -> Values:
        wanted = {f"gradient of {name}": t for name, t in state.parameters.items() if t.requires_grad}
        given = [t for t in tree_leaves(arguments) if isinstance(t, torch.Tensor) and not isinstance(t, torch.nn.Parameter)]
        wanted |= {f"gradient of argument {i}": t for i, t in enumerate(given) if t.requires_grad}
        known = {id(t) for t in wanted.values()}
        for key, leaf in _leaves(roots).items():
            if key not in known:  # what a function uses that is no argument
                name = self._names.setdefault(key, f"gradient of parameter {len(self._names)} of shape {tuple(leaf.shape)}")
                wanted[name] = leaf
        if not roots or not wanted:
            return {}
        with _backward_context(self.autocast_backward):
            try:
                made = torch.autograd.grad(roots, list(wanted.values()), [torch.ones_like(root) for root in roots], allow_unused=True)
            except RuntimeError as error:
                if "incompatible with .grad()" in str(error) or "not compatible with .grad()" in str(error):
                    raise VerificationError(
                        "verify=True: the model checkpoints with use_reentrant=True, which gives gradients to parameters alone; use_reentrant=False"
                    ) from None
                raise
        return {name: None if g is None else _stored(g) for name, g in zip(wanted, made, strict=True)}


def _apart(a: Values, b: Values, name: str) -> bool:
    """Whether a value is another one bit for bit, but for the sign of zeros and what is no number. No gradient is one of zeros."""
    x, y = a.get(name), b.get(name)
    if not isinstance(x, torch.Tensor) and not isinstance(y, torch.Tensor):
        return False
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
        one = x if isinstance(x, torch.Tensor) else y
        assert isinstance(one, torch.Tensor)
        return not name.startswith("gradient") or bool(one.count_nonzero())
    if x.shape != y.shape or x.dtype != y.dtype:
        return True
    return not torch.equal(x, y) and not bool(((x == y) | ((x != x) & (y != y))).all())


def _measure(x: object, y: object) -> tuple[float, float]:
    """The largest difference, and the largest element of what is right."""
    if not isinstance(y, torch.Tensor):
        x, y = (x, torch.zeros_like(x)) if isinstance(x, torch.Tensor) else (torch.zeros(1), torch.zeros(1))
    if not isinstance(x, torch.Tensor) or x.shape != y.shape or y.numel() == 0:
        return float("inf"), 0.0
    kind = torch.complex128 if y.is_complex() or x.is_complex() else torch.float64
    return float((x.to(kind) - y.to(kind)).abs().max()), float(y.to(kind).abs().max())
