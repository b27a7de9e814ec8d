# SPDX-License-Identifier: Apache-2.0
"""Which inputs of a graph get a gradient at all, when only some of its outputs do.

AOTAutograd's backward pass is made for gradients of all outputs. Where the loss depends on some of them only, it is given zeros for
the others, and so gives zeros for parameters that only those depend on. Eager mode leaves None there, which optimizers skip: of zeros they
take weight decay and momentum. Autograd itself knows which it would be, an operator's or a function's own rule included: it is asked, with
tensors without data, once for each set of outputs that get gradients.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .. import user_code

#: What Dynamo makes of a function of the user's; None where it has none.
_FUNCTION = getattr(torch.ops.higher_order, "autograd_function_apply", None)
#: Which of a function's results get a gradient.
Came = tuple[bool, ...]


class Reached:
    """Of one graph of Dynamo's, taken down while it is compiled. `model`: whose parameters a warning names."""

    def __init__(self, module: fx.GraphModule, inputs: Sequence[Any], model: object) -> None:
        self._module = module
        self._inputs = [node.meta.get("example_value") for node in module.graph.find_nodes(op="placeholder")]
        self._leaves = [isinstance(value, torch.Tensor) and value.is_leaf for value in inputs]
        devices = sorted({value.device.type for value in inputs if isinstance(value, torch.Tensor)} - {"meta"})
        self._autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in devices
                          if torch.amp.is_autocast_available(kind)]  # fmt: skip
        self._names = {id(p): name for name, p in model.named_parameters()} if isinstance(model, torch.nn.Module) else {}
        self._known: dict[Came, list[bool] | None] = {}
        self._unsure: set[Came] = set()  # for which a function of the user's may see None, and Dynamo does not say whether it does
        self._functions = [user_code.place(node.stack_trace or "") for node in module.graph.nodes if node.target is _FUNCTION]
        self._warned = False

    def inputs(self, came: Came, metadata: Any) -> list[bool] | None:
        """Of each input of the graph, whether eager mode gives it a gradient; None where that is not known. `came`: of what AOTAutograd's
        function returns, changed inputs first, which have a gradient; `metadata`: AOTAutograd's. Takes a forward and a backward pass of
        calls without data, once for each `came`."""
        if came not in self._known:
            try:
                self._known[came] = self._asked(came, metadata)
            except Exception:  # noqa: BLE001 - such as of an operator that knows nothing of tensors without data
                self._known[came] = None
        return self._known[came]

    def _asked(self, came: Came, metadata: Any) -> list[bool]:
        if not any(came):
            return [False] * len(self._inputs)
        mode = next(mode for value in self._inputs if (mode := _mode(value)) is not None)
        with self._as_traced(), mode:
            leaves = [value.detach().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value for value in self._inputs]
            given = [leaf.clone() if isinstance(leaf, torch.Tensor) and not own else leaf for leaf, own in zip(leaves, self._leaves, strict=True)]
            outputs = self._module(*given)
            everything = _results(metadata, given, outputs)
            results = [value for value, yes in zip(everything, came, strict=True) if yes]
            if self._functions:
                self._listen(everything, came)
            trained = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
            found = torch.autograd.grad(results, trained, [torch.empty_like(value) for value in results], allow_unused=True)
        reached = iter([gradient is not None for gradient in found])
        return [isinstance(leaf, torch.Tensor) and leaf.requires_grad and next(reached) for leaf in leaves]

    @contextlib.contextmanager
    def _as_traced(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.enable_grad())
            for kind, enabled, dtype in self._autocast:
                stack.enter_context(torch.autocast(kind, dtype, enabled, cache_enabled=False))
            yield

    def _listen(self, results: Sequence[Any], came: Came) -> None:
        """Notes when a function of the user's gets gradients of some of its outputs only. Dynamo has all of them see zeros for the others,
        even one that called `ctx.set_materialize_grads(False)` to see None."""
        used: dict[Any, set[int]] = {}
        trained = [value for value in results if isinstance(value, torch.Tensor) and value.requires_grad]
        edges: list[tuple[Any, int]] = [(edge.node, edge.output_nr) for edge in map(torch.autograd.graph.get_gradient_edge, trained)]
        while edges:
            node, number = edges.pop()
            if node is not None:
                if node not in used:
                    edges += node.next_functions
                used.setdefault(node, set()).add(number)
        for node, numbers in used.items():
            if node.name() == "ApplyTemplateBackward":
                node.register_prehook(lambda given, numbers=numbers: self._unsure.add(came) if any(given[i] is None for i in numbers) else None)

    def tell(self, came: Came, edges: Sequence[Any], given: Sequence[torch.Tensor | None]) -> None:
        """One warning where gradients may be None in eager mode, and nothing here says so. `edges`: where the gradients `given` go."""
        if self._warned or (self._known[came] is not None and came not in self._unsure):
            return
        zeros = [node for (node, _), value in zip(edges, given, strict=True) if value is not None and not value.any()]
        names = [self._names[id(node.variable)] for node in zeros if id(getattr(node, "variable", None)) in self._names]
        why = f"through the torch.autograd.Function{self._functions[0]}, which may see None there, " if came in self._unsure else ""
        if names or why:
            self._warned = True
            which = f"of {', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''} " if names else ""
            user_code.warn(
                f"the loss does not depend on all outputs of the model, and gradients {which}are taken {why}with zeros for the others. In eager mode "
                "they may be None, which an optimizer skips; zeros it takes for gradients, with weight decay and momentum. Compile with loss=, which "
                "names the output that is differentiated"
            )


def _mode(value: Any) -> Any:
    """The fake mode of an input's example."""
    if is_traceable_wrapper_subclass(value):
        value = getattr(value, value.__tensor_flatten__()[0][0])  # type: ignore[attr-defined]
        return _mode(value)
    return getattr(value, "fake_mode", None)


def _results(metadata: Any, given: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """What AOTAutograd's function returns, found among the graph's inputs after it ran and its outputs: a tensor that outputs are views of is
    reached by whatever one of them reaches."""
    from torch._functorch._aot_autograd.schemas import OutputType

    of_intermediate = (OutputType.alias_of_intermediate, OutputType.alias_of_intermediate_save_as_output)
    views: dict[int, Any] = {}
    for info, output in zip(metadata.output_info, outputs, strict=True):
        if info.output_type in of_intermediate:
            views.setdefault(info.base_idx, output)
    changed = [given[i] for i in metadata.mutated_inp_runtime_indices]
    return [*changed, *outputs, *(views[i] for i in range(metadata.num_intermediate_bases))]


def differentiated(metadata: Any) -> Came:
    """Of what AOTAutograd's function returns, which may get a gradient."""
    from torch._functorch._aot_autograd.schemas import OutputType

    new = (OutputType.non_alias, OutputType.unsafe_view_alias, getattr(OutputType, "custom_function_view", None))
    inputs = [metadata.input_info[i] for i in metadata.mutated_inp_runtime_indices]
    changed = [info.mutates_data and info.requires_grad for info in inputs]
    made = [info.output_type in new and info.requires_grad for info in metadata.output_info]
    return (*changed, *made, *[True] * metadata.num_intermediate_bases)


class Asked:
    """What AOTAutograd made of a graph, by its `metadata`. Of a call, `watch` looks after the node that is its backward pass."""

    def __init__(self, reached: Reached, metadata: Any) -> None:
        self.reached, self.metadata, self.whole = reached, metadata, differentiated(metadata)
        self.positions: list[int | None] = []  # of the gradients that a node makes, of which input of the graph each is

    def given(self, made: Sequence[torch.Tensor | None], came: Came, edges: Any) -> Sequence[torch.Tensor | None]:
        """The gradients `made`, one for each input of the graph or for each of `positions`, with None where eager mode has it."""
        if came == self.whole:
            return made
        found = self.reached.inputs(came, self.metadata)
        if found is not None:
            positions = self.positions or range(len(found))
            made = tuple(value if i is None or found[i] else None for value, i in zip(made, positions, strict=True))
        self.reached.tell(came, edges, made)
        return made

    def watch(self, node: Any, inputs: Sequence[Any]) -> None:
        if not self.positions:
            tensors = [(i, value) for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and value.requires_grad]
            leads = {(edge.node, edge.output_nr): i for i, value in tensors for edge in [torch.autograd.graph.get_gradient_edge(value)]}
            self.positions += [leads.get(edge) for edge in node.next_functions]
        call = _Call(self, node.next_functions)
        node.register_prehook(call.before)
        node.register_hook(call.after)


class _Call:
    """Around the backward passes of one call. It does not hold the node, which holds it."""

    def __init__(self, asked: Asked, edges: Any) -> None:
        self.asked, self.edges, self.came = asked, edges, asked.whole

    def before(self, given: Sequence[torch.Tensor | None]) -> None:
        self.came = tuple(value is not None for value in given)

    def after(self, made: Sequence[torch.Tensor | None], _given: object) -> Any:
        return self.asked.given(made, self.came, self.edges)
