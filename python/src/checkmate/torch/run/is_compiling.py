# SPDX-License-Identifier: Apache-2.0
"""Models whose code asks whether torch.compile traces it, and may then compute something else than in eager mode.

Libraries do: transformers gives attention a mask where eager mode gives none, or multiplies the experts' matrices by another
kernel. Dynamo answers yes, and the plan is of what it traced. So the first step of such a model, and of no other, runs the forward
pass once more in eager mode, and once as traced, from the same state and with nothing saved, and compares: outputs bit for bit, and
the operators that gradients pass through. What differs is said once, with the places that asked.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from ...graph import Graph
from ...schedule import Schedule
from .. import failures, user_code
from ..distributed import ranks
from ..plan.result import Plan
from ..plan.verify import _State
from ..trace.subgraphs import storages

_ASKED = "_checkmate_asked"

#: Functions that only hand the question on, by their names.
_HELPER = re.compile(r"compiling|tracing|exporting")

#: The operators that gradients pass through, by name, but for functions written in Python, which have other names when traced.
Operators = Counter[str]


class _Answers(dict[Any, Any]):
    """What Dynamo answers; where that is not what eager mode does, the tracer's place is noted."""

    def __getitem__(self, question: Any) -> Any:
        answer = super().__getitem__(question)
        tracer = sys._getframe(1).f_locals.get("tx")
        if answer is True and tracer is not None:
            place = _place(tracer)
            if place:
                vars(tracer.output).setdefault(_ASKED, {})[place] = None
        return answer


def _place(tracer: Any) -> str:
    """The line that asks; "" where that is PyTorch's own."""
    while tracer is not None:
        frame = tracer.frame_summary()
        if user_code.inside_pytorch(frame.filename):
            return ""
        parent = getattr(tracer, "parent", None)
        if parent is None or not _HELPER.search(frame.name):
            return f"{frame.filename}:{frame.lineno}"
        tracer = parent
    return ""


@functools.cache
def listen() -> None:
    """From now on Dynamo's graphs know which places asked."""
    from torch._dynamo.variables import torch as module

    traced: Any = module  # the state functions are a dictionary or a function, by version
    answers = traced.tracing_state_functions
    if isinstance(answers, dict):  # PyTorch 2.6
        traced.tracing_state_functions = _Answers(answers)
    else:
        traced.tracing_state_functions = functools.cache(lambda: _Answers(answers()))


def places() -> list[str]:
    """Those that asked in the graph that Dynamo is compiling."""
    output = failures.output_graph()
    return list(vars(output).get(_ASKED, ())) if output is not None else []


def copied(graph: fx.Graph) -> fx.Graph:
    made = fx.Graph()
    made.output(made.graph_copy(graph, {}))  # type: ignore[arg-type]
    return made


def _operators(roots: list[torch.Tensor]) -> Operators:
    stack, seen, found = [root.grad_fn for root in roots], set(), Counter[str]()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if not hasattr(node, "variable") and not isinstance(node, torch.autograd.function.BackwardCFunction):
            found[node.name()] += 1
        stack.extend(parent for parent, _ in node.next_functions)
    return found


def _digest(value: Any) -> object:
    """Equal for equal bits; None for what is no plain tensor."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or type(value) not in (torch.Tensor, torch.nn.Parameter):
        return None
    data = value.detach().resolve_conj().resolve_neg().to("cpu").contiguous()
    size = data.numel() * data.element_size()
    content = (ctypes.c_char * size).from_address(data.data_ptr()) if size else b""
    return tuple(data.shape), str(data.dtype), hashlib.blake2b(content, digest_size=16).digest()


def _forward_bytes(plan: Plan) -> int:
    """Of the plan's forward pass where nothing is saved."""
    ops = plan.graph.ops
    end = next((i for i, op in enumerate(ops) if op.name == "boundary"), len(ops))
    later = {t for op in ops[end:] for t in op.outputs}
    made, number = Graph("forward", fixed_bytes=plan.graph.fixed_bytes), dict[int, int]()
    for i, tensor in enumerate(plan.graph.tensors):
        if i not in later:
            number[i] = made.tensor(bytes=tensor.bytes, name=tensor.name, alias_of=number.get(tensor.alias_of, -1))
    for op in ops[:end]:
        outputs = [number[t] for t in op.outputs]
        made.op(cost=1, inputs=[number[t] for t in op.inputs], outputs=outputs, name=op.name, workspace_bytes=op.workspace_bytes)
    made_here = {t for op in ops[:end] for t in op.outputs}
    for t in ops[end].inputs if end < len(ops) else ():
        if t in made_here:
            made.result(number[t])
    return Schedule.baseline(made).simulate(made).peak_bytes


class FirstStep:
    """The comparison of a model's first step. `original` is the model as it is, `model` holds its state."""

    def __init__(self, original: Callable[..., Any], model: torch.nn.Module) -> None:
        self.original, self.model = original, model
        self.asked: dict[str, None] = {}
        self._graph: fx.GraphModule | None = None  # as Dynamo traced it, where that is the whole model
        self._traced: Operators | None = None
        self._expected: tuple[list[object], Operators] | None = None
        self._over = False

    def traced(self, module: fx.GraphModule, *, whole: bool) -> None:
        """Before a graph of the model is planned, and changed."""
        if self._over:
            return
        self.asked |= dict.fromkeys(places())
        if self.asked and whole:
            self._graph = fx.GraphModule(module, copied(module.graph))

    def before(self, arguments: Any, plans: list[Plan], inputs: tuple[Any, ...] = ()) -> None:
        """Before the step: what eager mode computes, if it is to be compared and there is room for it. `inputs`: of the graph."""
        if self._over or not self.asked or not plans or not torch.is_grad_enabled():
            return
        self._over = True
        if arguments is None or ranks.size() > 1 or not self._can_run_again(arguments):
            return
        copies = sum(storages(list(self.model.buffers()), arguments).values())
        if any(_forward_bytes(plan) + copies > plan.budget_bytes for plan in plans):
            return
        self._expected = self._without_saving(self.original, *arguments)
        if self._expected is not None and any(p.device.type != "cpu" for p in self.model.parameters()):
            again = self._without_saving(self.original, *arguments)  # kernels of a GPU may differ from run to run
            self._expected = self._expected if again == self._expected else None
        if self._expected is not None and self._graph is not None:
            traced = self._without_saving(self._graph, inputs, {}, arguments)
            self._traced = traced and traced[1]
        self._graph = None

    def _can_run_again(self, arguments: Any) -> bool:
        """Whether nothing tells that the forward pass ran twice: no objects among the arguments, no hooks of the user's."""
        if any(not (value is None or isinstance(value, (torch.Tensor, bool, int, float, str))) for value in tree_leaves(arguments)):
            return False
        hooks = [hook for module in self.model.modules() for found in (module._forward_hooks, module._forward_pre_hooks) for hook in found.values()]
        return all(str(getattr(hook, "__module__", "")).startswith("transformers.") for hook in hooks)

    def _without_saving(self, run: Callable[..., Any], args: Any, kwargs: Any, state_of: Any = None) -> tuple[list[object], Operators] | None:
        """What a forward pass gives; its state is the same afterwards. `state_of`: the model's arguments, where they are others."""
        state = _State(self.model, *(state_of or (args, kwargs)))

        def nothing(_saved: Any) -> Any:
            return None

        try:
            if state_of is None:
                args, kwargs = state.arguments()
            with warnings.catch_warnings(), torch.autograd.graph.saved_tensors_hooks(nothing, nothing):
                warnings.simplefilter("ignore")
                made = tree_leaves(run(*args, **kwargs))
            trained = [value for value in made if isinstance(value, torch.Tensor) and value.requires_grad]
            return [_digest(value) for value in made], _operators(trained)
        except Exception:  # noqa: BLE001 - such as of transforms, which allow no hooks
            return None
        finally:
            state.restore()
            torch.clear_autocast_cache()

    def after(self, outputs: Any) -> None:
        """After the step's forward pass: says what differs."""
        if self._expected is None:
            return
        (digests, operators), traced = self._expected, self._traced
        self._expected = None
        found = [_digest(value) for value in tree_leaves(outputs)]
        apart = sum(a is not None and b is not None and a != b for a, b in zip(digests, found, strict=False))
        if apart:
            what = f"{apart} of its {len(found)} outputs are not eager mode's, bit for bit"
        elif traced is not None and operators != traced:
            other = sorted((operators - traced) + (traced - operators))
            what = f"its gradients pass through other operators than in eager mode ({', '.join(other[:4])}{', ...' if len(other) > 4 else ''})"
        else:
            return
        shown = list(self.asked)
        user_code.warn(
            f"this model computes something else when torch.compile traces it: {what}, so that gradients may differ in the last bits. Its code asks "
            f"whether it is compiled ({', '.join(shown[:4])}{', ...' if len(shown) > 4 else ''}). The plan computes what was traced, as "
            'torch.compile(model, backend="eager") does; verify=True compares all of a step with eager mode'
        )
