# SPDX-License-Identifier: Apache-2.0
"""What goes wrong on the way from a model to a plan, as one clear error each."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from ..errors import CheckmateError, InfeasibleError, UnsupportedError
from .fx import symbols
from .memory import ranges
from .options import Options, from_progress
from .rewrite import recurrent
from .trace import output_hooks
from .trace.subgraphs import Graphs
from .user_code import place, warn


def dynamic_sizes(module: fx.GraphModule, inputs: list[Any], model: object, options: Options, *, split: bool) -> list[ranges.Size]:
    """The sizes among a graph's inputs that are symbols. Positional arguments have the names that `model` has for them.
    UnsupportedError for sizes that depend on data, and where a range of sizes has no plan."""
    found = ranges.sizes(module, inputs, lambda node: _source(node, model), options.dynamic)
    if found:
        layers = next((node for node in module.graph.nodes if recurrent.is_call(node)), None)
        why = (
            'graph_breaks="split" shares the budget among graphs of known bytes' if split
            else "inductor chooses its own buffers for each size" if options.compiler == "inductor"
            else f"a recurrent layer{place(layers.stack_trace or '')} is measured at one size" if layers is not None
            else ""
        )  # fmt: skip
        if why:
            raise UnsupportedError(
                f"dynamic shapes cannot be planned here, because {why}: {', '.join(f'{size} (now {_hint(size.value)})' for size in found)}. Compile "
                "with dynamic=False and do not call torch._dynamo.mark_dynamic; give compile shapes=, how many there may be"
            )
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        if node.op == "placeholder" and isinstance(value, torch.Tensor) and value.is_nested:
            raise UnsupportedError(
                f"the argument {_source(node, model)} is a nested tensor, whose bytes are not known: give the model "
                "x.values().clone() and x.offsets().clone(), and make it in the model, by torch.nested.nested_tensor_from_jagged(values, offsets)"
            )
        if isinstance(value, torch.Tensor) and symbols.symbolic(value) and free_unbacked_symbols(tuple(value.shape)):
            raise _depends_on_data(f"the result of '{node.name}'{place(node.stack_trace or '')}", split=split or model is None)
    return found


def output_graph() -> Any:
    """What Dynamo is compiling when it calls the backend; None where it is not Dynamo that calls."""
    from torch._dynamo.output_graph import OutputGraph

    frame: Any = sys._getframe(1)
    while frame is not None and not isinstance(frame.f_locals.get("self"), OutputGraph):
        frame = frame.f_back
    return None if frame is None else frame.f_locals["self"]


_DRAWN = "draw them before the call and give them to the model as a tensor, or draw with torch.rand"


def require_no_frozen_draws(module: fx.GraphModule) -> None:
    """UnsupportedError for numbers drawn from a random.Random of the model's own: PyTorch draws the first one in every step."""
    from torch._dynamo.source import RandomValueSource

    drawn = getattr(output_graph(), "random_calls", ())
    if not any(getattr(call[0], "__name__", "") == "call_random_meth" for call in drawn):
        return
    numbers = [node for node in module.graph.nodes if isinstance(getattr(node.meta.get("grapharg"), "source", None), RandomValueSource)]
    trace = next((str(user.stack_trace) for node in numbers for user in node.users if user.stack_trace), "")
    raise UnsupportedError(
        f"the model draws numbers from a random.Random of its own{place(trace)}, which PyTorch's tracing cannot continue with: {_DRAWN}"
    )


def _depends_on_data(what: str, *, split: bool) -> UnsupportedError:
    return UnsupportedError(
        f"sizes that depend on data cannot be planned, because bytes must be known: {what}. Keep the size fixed: torch.where with "
        f"a mask instead of a selection{'' if split else f'. Or {_SPLIT}'}"
    )


_SPLIT = 'graph_breaks="split" plans its parts'


def _began(error: BaseException | None) -> str:
    """Where the size or number was made that PyTorch's tracing had to know, which may be far from where it was needed. "" where
    that is not known."""
    from torch._dynamo.output_graph import OutputGraph
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    while error is not None and not isinstance(error, GuardOnDataDependentSymNode):
        error = error.__cause__ or error.__context__
    if error is None or error.__traceback__ is None:
        return ""
    wanted = {str(symbol) for symbol in error.cond.free_symbols}
    frame: FrameType | None = error.__traceback__.tb_frame
    while frame is not None:
        graph = getattr(frame.f_locals.get("self"), "output", None)
        if isinstance(graph, OutputGraph):
            nodes = (n for n in graph.graph.nodes if wanted & set(re.findall(r"\bu\d+\b", str(n.meta.get("example_value")))))
            return place(str(getattr(next(nodes, None), "stack_trace", None) or ""))
        frame = frame.f_back
    return ""


def _source(node: fx.Node, model: object) -> str:
    """The name that the model's own code has for an input."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", None)
    text = str(name() if callable(name) else name or node.name)
    match = re.fullmatch(r"L\['(?:kwargs'\]\[')?(\w+)'\]", text)
    position = re.fullmatch(r"L\['args'\]\[(\d+)\]", text)
    if position is not None and model is not None:
        names = _argument_names(model)
        text = names[int(position[1])] if int(position[1]) < len(names) else text
    return f"'{match[1] if match else text}'"


def _argument_names(model: object) -> list[str]:
    """Of the positional arguments."""
    return [p.name for p in ranges.arguments_of(model) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _hint(size: object) -> str:
    hint = getattr(getattr(size, "node", None), "hint", None)
    return "unknown" if hint is None else str(hint)


_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


class Guard:
    """Calls a compiled model. What the compiler cannot do is an UnsupportedError, or with `fallback` a warning, given
    once, after which the model runs as it is, without a budget. `advice`: whether errors name those two options."""

    def __init__(
        self, compiled: Callable[..., Any], original: Callable[..., Any], *, fallback: bool, graphs: Graphs | None, advice: bool = True
    ) -> None:
        self.compiled, self.original, self.fallback, self.graphs, self.advice = compiled, original, fallback, graphs, advice
        self.fell_back = self.warned = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from torch._dynamo.exc import BackendCompilerFailed, FailOnRecompileLimitHit, TorchDynamoException

        if self.fell_back:
            return self.original(*args, **kwargs)
        try:
            try:
                return self._run(args, kwargs)
            except TorchDynamoException as error:
                if not output_hooks.install_hooks(error, self.original):
                    raise
                return self._run(args, kwargs)
        except BackendCompilerFailed as error:
            inner = getattr(error, "inner_exception", error)
            if _says_what_is_wrong(inner) and not from_progress(inner):
                raise inner from None
            failure = (
                inner
                if isinstance(inner, CheckmateError) or from_progress(inner)
                else _unsupported(inner, "planned", self.advice, split=self.graphs is not None)
            )
        except UnsupportedError as error:
            failure = error
        except (FailOnRecompileLimitHit, TorchDynamoException) as error:
            if isinstance(error, FailOnRecompileLimitHit) or str(error).startswith("cache_size_limit reached"):  # the latter before PyTorch 2.7
                failure = _too_many_shapes()
            else:
                _require_arguments(self.original, args, kwargs)
                failure = _unsupported(error, "traced as one graph", self.advice)
        except Exception as error:
            # Most of what goes wrong in tracing has a type of PyTorch's tracer, but not all.
            if isinstance(error, CheckmateError) or not _from_tracing(error):
                raise
            _require_arguments(self.original, args, kwargs)
            failure = _unsupported(error, "traced as one graph", self.advice)
        # Half a step cannot be taken back: a graph that has run has updated its statistics already.
        begun = self.graphs is not None and bool(self.graphs.held)
        if not self.fallback or begun or not isinstance(failure, UnsupportedError) or from_progress(failure):
            raise failure
        warn(f"the model runs without a budget: {failure}")
        self.fell_back = True
        return self.original(*args, **kwargs)

    def _run(self, args: Any, kwargs: Any) -> Any:
        return self.compiled(*args, **kwargs) if self.graphs is None else self._split(self.graphs, *args, **kwargs)

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
            several = f"{skipped} functions cannot be traced, or come in more shapes than PyTorch compiles for, and are not planned"
            one = "a function cannot be traced, or comes in more shapes than PyTorch compiles for, and is not planned"
            warn(f"{one if skipped == 1 else several}: the budget does not hold for what {'it computes' if skipped == 1 else 'they compute'}. "
                 'TORCH_LOGS="graph_breaks,recompiles" tells which')  # fmt: skip
        return outputs


def for_shapes(error: InfeasibleError, arguments: object) -> InfeasibleError:
    """The error, with the shapes that the model was called with: the budget may be enough for others."""
    shapes = [str(tuple(leaf.shape)) for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
    if not shapes:
        return error
    named = f"{', '.join(shapes[:4])}{', ...' if len(shapes) > 4 else ''}"
    return InfeasibleError(f"{error} (for a call with tensors of shape {named})", **error.facts())


def in_backend(error: Exception) -> UnsupportedError | None:
    """What was raised while a graph was planned, where it says that the graph cannot be."""
    from torch._dynamo.exc import RestartAnalysis

    if _says_what_is_wrong(error) or from_progress(error) or isinstance(error, RestartAnalysis):
        return None
    if isinstance(error, CheckmateError):
        return error if isinstance(error, UnsupportedError) else None
    return _unsupported(error, "planned", advice=False)


def _files(error: BaseException) -> list[str]:
    """Where it went through, the place that raised it last."""
    found, frame = [], error.__traceback__
    while frame is not None:
        found.append(frame.tb_frame.f_code.co_filename)
        frame = frame.tb_next
    return found


def _says_what_is_wrong(error: Exception) -> bool:
    """Whether it is a budget that nothing fits, or a ValueError of this package's own, about the user's options: PyTorch raises
    others where it cannot trace."""
    return isinstance(error, InfeasibleError) or (isinstance(error, ValueError) and "".join(_files(error)[-1:]).startswith(_PACKAGE))


def _from_tracing(error: Exception) -> bool:
    """Whether it was raised while Dynamo traced, and not while what it had traced ran."""
    return torch._dynamo.convert_frame.__file__ in _files(error)


def _require_arguments(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """TypeError where the call itself is wrong, as Python has it."""
    module = getattr(model, "__self__", model)  # of a module that is compiled in place, a method is
    function = module.forward if isinstance(module, torch.nn.Module) else model
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # such as a function written in C
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"the model is called with wrong arguments: {error}") from None


def _too_many_shapes() -> UnsupportedError:
    limit = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"  # before PyTorch 2.7
    failure = UnsupportedError(
        f"PyTorch compiles a function for at most {getattr(torch._dynamo.config, limit)} combinations of shapes, modes and Python "
        "numbers, attributes of modules among them: give shapes=, how many there may be, to checkmate.torch.compile, pad to a few sizes, give "
        f"numbers that change as tensors and keep counters as buffers, or raise torch._dynamo.config.{limit}"
    )
    failure.__suppress_context__ = True
    return failure


def _unsupported(error: BaseException, what: str, advice: bool, *, split: bool = False) -> UnsupportedError:
    """PyTorch's message is long; its first line and its explanation say what is wrong. `split`: other parts of the model may have run."""
    text = str(error).strip()
    reason = text.splitlines()[0] if text else ""
    explanation = re.search(r"^\s*Explanation: (.+)$", text, re.MULTILINE)
    raised = re.search(r"raised exception (.+)$", text, re.MULTILINE)
    violated = re.search(r"^\s*- (.+?)(\. If you're using.*)?$", text, re.MULTILINE) if reason.startswith("Constraints violated") else None
    if violated is not None:
        reason = f"a size that is marked as dynamic is not ({violated[1]}): mark it in every tensor that has it, as large everywhere, or nowhere"
    if raised is not None:
        reason, advice = f"its own code raises {raised[1]}", False
    elif explanation is not None:
        reason += f": {explanation[1].rstrip('.')}"
    if what == "planned" or not reason:
        reason = f"{type(error).__name__}: {reason}".removesuffix(": ")
    if "use_numpy_random_stream" in text:
        reason, advice = f"it draws numpy's random numbers, which cannot be traced: {_DRAWN}", False
    if "SparseTensorImpl" in reason:
        reason += " (a sparse gradient? torch.nn.Embedding has sparse=False)"
    where = place(text.rpartition("from user code")[2]) if "from user code" in text else ""
    caused = re.search(r"^Caused by: .*# (.+:\d+) in ", text, re.MULTILINE)
    where = where or (f" ({caused[1]})" if caused else "")
    # A gradient that the forward pass takes of a planned part would be differentiated twice, which no part can.
    twice = "autograd.grad" in text or "requires_grad_()" in text
    options = [_SPLIT] if what != "planned" and not twice else []
    alone = ' without graph_breaks="split"' if split else ""  # half a step cannot be taken back
    options.append(f'fallback="eager"{alone} runs it without a budget')
    if "data-dependent expression" in reason:
        where = _began(error) or where
        hint = " (momentum=None of a batch norm does: give it a number)" if "batchnorm.py" in text else ""
        reason = f"its code needs the value of a tensor as a Python number{hint}"
        if re.search(r"Size-like symbols: \w*\d", text):
            reason = "its code asks for a size that depends on data, such as how many elements a mask selects"
    called = re.search(r"call_(?:function|method|module) (.+?)\(.*got (\w+)\(['\"](.+)['\"]\)", text, re.DOTALL)
    dynamic = re.match(r"(?i)dynamic shape operator: (?:operator `)?([\w.]+)", reason)  # with old versions, that do not trace it
    if "data-dependent" in text and torch.nn.modules.rnn.__file__ in text:
        failure = recurrent.packed(where)
    elif called is not None:
        failure = UnsupportedError(
            f"the model's own code is wrong for these arguments: {called[1].strip('<>')} raises {called[2]}: {called[3]}{where}"
        )
    elif dynamic is not None and "ctc_loss" in dynamic[1]:
        failure = UnsupportedError(
            f"the bytes of a CTC loss depend on the lengths in its tensors{where}: compute it outside of the model. {', '.join(options)}"
        )
    elif dynamic is not None:
        failure = _depends_on_data(f"the result of '{dynamic[1]}'{where}", split=_SPLIT not in options)
    else:
        failure = UnsupportedError(f"the model cannot be {what}: {reason}{where}" + (f". {', '.join(options)}" if advice else ""))
    failure.__cause__ = error
    return failure
