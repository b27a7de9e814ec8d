# SPDX-License-Identifier: Apache-2.0
"""One budget for the several graphs that graph breaks make of a model.

Graphs are planned one after the other, as they are met. While graph i runs, forwards or backwards, there is, in addition to its own tensors:
the model and the call's arguments; the gradients of the graphs after it, and at most of all others; what the graphs before
it keep for their backward passes, their outputs, and the gradients of those, which may be waiting. All that is added to
graph i's fixed bytes. As backward passes run in the opposite order, the step's peak is within the budget if every graph's
is. What Python computes between the graphs is not counted, nor is what the model returns in addition to its loss.

A graph that others follow does not know how much they need. It is asked to leave them half of what is free when its
forward pass ends, a quarter if it cannot, or nothing; a graph with nothing but scalars to differentiate is the last.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten

from ..fx.dataflow import storage_bytes, storage_key

#: Of what is free, the parts that a graph tries to leave to those that follow it.
RESERVES = (0.5, 0.25, 0.0)


def storages(*groups: object) -> dict[int, int]:
    """Of the tensors in these, each storage once, with its bytes."""
    return {storage_key(t): storage_bytes(t) for t in tree_flatten(groups)[0] if isinstance(t, torch.Tensor)}


def nowhere(_value: object) -> bool:
    """That a tensor is in memory, as all are without a second one."""
    return False


def unused_bytes(model: object, arguments: object, inputs: list[Any], away: Callable[[object], bool] = nowhere) -> int:
    """Bytes of the model's parameters and buffers and of the call's arguments that a graph with these inputs does not take. `away`: which
    take no memory."""
    held = [t for t in (*model.parameters(), *model.buffers()) if not away(t)] if isinstance(model, torch.nn.Module) else []
    own = storages(inputs)
    return sum(size for key, size in storages(held, arguments).items() if key not in own)


@dataclass(frozen=True)
class Surroundings:
    """What is in memory outside one graph, and whether others may follow it."""

    held_bytes: int = 0
    followed: bool = False


class Graphs:
    """The graphs that have run in the call under way, and what they hold."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.arguments: object = ()
        self.held: list[int] = []
        self.counted: dict[int, int] = {}  # of `held`, the storages that went from one graph to another
        self.away: Callable[[object], bool] = nowhere  # which tensors of the model take no memory
        self._callers: AbstractSet[int] = set()  # storages of the model and of the call's own arguments

    def begin(self, *arguments: object) -> None:
        self.arguments, self.held, self.counted, self._callers = arguments, [], {}, set()

    def end(self) -> None:
        self.arguments = ()

    def present_bytes(self) -> int:
        """What of the step there is before its first graph runs."""
        return sum(storages(self._present(), self.arguments).values())

    def _present(self) -> list[torch.Tensor]:
        return [t for t in (*self.model.parameters(), *self.model.buffers()) if not self.away(t)]

    def around(self, inputs: list[Any]) -> Surroundings:
        """For a graph with these inputs, about to be planned."""
        own = storages(inputs)
        everything = storages(self._present(), self.arguments)
        trained = storages([p for p in self.model.parameters() if p.requires_grad])
        outside = sum(size for key, size in [*everything.items(), *trained.items()] if key not in own)
        return Surroundings(outside + sum(self.held) - self.known_bytes(own), True)

    def between(self, inputs: list[Any]) -> list[int]:
        """Which of the inputs are neither the model's nor the call's own."""
        callers = storages(list(self.model.parameters()), list(self.model.buffers()), self.arguments)
        return [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and storage_key(value) not in callers]

    def known_bytes(self, storages: dict[int, int]) -> int:
        """What of these is in `held` already. A storage that died and another at its place count as one."""
        return sum(min(size, self.counted.get(key, 0)) for key, size in storages.items())

    def ran(self, held_bytes: int, given: list[Any], outputs: object) -> None:
        """`held_bytes`: what a graph keeps, its outputs included, or 0 where it has no backward pass; `given`: what it got from others and
        keeps too. What is the model's or the caller's is counted outside of all graphs."""
        if not self._callers:
            self._callers = storages(list(self.model.parameters()), list(self.model.buffers()), self.arguments).keys()
        before = storages(given)
        made = {key: size for key, size in storages(outputs).items() if key not in self._callers and key not in before}
        self.held.append(max(held_bytes, sum(made.values())) + sum(before.values()) - self.known_bytes(before))
        for key, size in [*before.items(), *made.items()]:
            self.counted[key] = max(size, self.counted.get(key, 0))


def holds(forward: fx.Graph, n_outputs: int) -> int:
    """What a graph with that forward pass holds after it, in addition to its inputs. The first `n_outputs` outputs go to the caller and
    have gradients, the others are for the backward pass."""
    outputs = [node for node in next(iter(reversed(forward.nodes))).args[0] if isinstance(node, fx.Node)]  # type: ignore[union-attr]
    made = storages([node.meta.get("val") for node in outputs if node.op != "placeholder"])
    gradients = storages([node.meta.get("val") for node in outputs[:n_outputs]])
    return sum(made.values()) + sum(gradients.values())


#: Plans a graph with these inputs and surroundings: what runs it, and the bytes that it then holds.
Make = Callable[[list[Any], Surroundings], tuple[Callable[..., Any], int]]


class Part:
    """A graph that runs once or more often in a call, as that of layers which share their code does. The later it runs the more
    is held outside it: where that is more than any of its plans was made for, it is planned anew."""

    def __init__(self, graphs: Graphs, make: Make, inputs: list[Any]) -> None:
        self.graphs, self.make = graphs, make
        self.made: list[tuple[int, Callable[..., Any], int]] = []  # bytes outside it, what runs it, bytes that it holds
        self.chosen: dict[tuple[int, int], tuple[int, list[int]]] = {}  # of `made`, by what is held; inputs from other graphs
        #: Parameters are never from another graph.
        self.tensors = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)]
        self._choose(inputs, self._outside(inputs, self.tensors))

    def _outside(self, inputs: list[Any], between: list[int]) -> tuple[int, int]:
        return sum(self.graphs.held), self.graphs.known_bytes(storages([inputs[i] for i in between]))

    def _choose(self, inputs: list[Any], held: tuple[int, int]) -> tuple[int, list[int]]:
        around = self.graphs.around(inputs)
        fitting = [(outside, i) for i, (outside, _run, _held) in enumerate(self.made) if outside >= around.held_bytes]
        if not fitting:
            run, after = self.make(inputs, around)
            self.made.append((around.held_bytes, run, after))
            fitting = [(around.held_bytes, len(self.made) - 1)]
        self.chosen[held] = min(fitting)[1], self.graphs.between(inputs)
        return self.chosen[held]

    def __call__(self, *args: Any) -> Any:
        inputs = list(args)
        held = self._outside(inputs, self.tensors)
        index, between = self.chosen.get(held) or self._choose(inputs, held)
        _outside, run, after = self.made[index]
        given = [inputs[i] for i in between]
        del inputs
        outputs = run(*args)
        self.graphs.ran(after, given, outputs)
        return outputs
