# SPDX-License-Identifier: Apache-2.0
"""The operators and tensors of a TensorFlow step, and the step that they make up."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

#: The name scopes in which GradientTape and tf.gradients put what they compute.
_BACKWARD = re.compile(r"gradient_tape|gradients(_\d+)?")
#: Operators that change a variable.
ASSIGNING = {"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"}
#: Operators that change parts of a variable; its reads then get a copy.
SPARSE = ("ResourceScatter", "ResourceSparseApply")


@dataclass(eq=False)
class Value:
    """A tensor of the step. `bytes`: of its elements. `constant`: if it was folded. `variable`: bytes of the variable behind
    a resource handle."""

    name: str
    spec: tf.TensorSpec
    bytes: int
    constant: np.ndarray[Any, Any] | None = None
    variable: int = 0
    is_resource: bool = False


@dataclass(eq=False)
class Call:
    """An operator. `once`: it may not be computed again, because it reads or changes state or runs functions. `after`: calls
    that have to run before."""

    op: tf.Operation
    inputs: list[Value]
    outputs: list[Value]
    once: bool
    after: list[Call] = field(default_factory=list)

    @property
    def type(self) -> str:
        return str(self.op.type)

    @property
    def name(self) -> str:
        return str(self.op.name)

    @property
    def module(self) -> str:
        """The Keras layer, as the name scopes say it, without those of gradients."""
        scopes = self.name.split("/")[:-1]
        return ".".join(scope for scope in scopes if not _BACKWARD.fullmatch(scope))

    @property
    def is_backward(self) -> bool:
        return any(_BACKWARD.fullmatch(scope) for scope in self.name.split("/"))

    @property
    def unfolded(self) -> int:
        """The operand to be given as an argument where all are constants, else -1: of constants alone TensorFlow would compute the
        result once, when the function is first called, and keep it, for every time that the operator is run."""
        if not self.inputs or any(v.constant is None for v in self.inputs):
            return -1
        return max(range(len(self.inputs)), key=lambda i: (self.inputs[i].spec.dtype.is_floating, self.inputs[i].bytes, i))

    @property
    def assigns(self) -> bool:
        """Whether it changes the variable whose handle is its first operand."""
        return self.type in ASSIGNING or self.type.startswith(("ResourceApply", *SPARSE))

    @property
    def takes_alone(self) -> bool:
        """Whether it copies the variable if a value read from it is still referenced."""
        return self.assigns or self.type == "ResourceGather"


@dataclass(eq=False)
class Program:
    """`inputs`: placeholders, the captured ones last; `results`: what the step returns, flat; `traced`: the calls in the order in which
    they were traced."""

    graph: tf.Graph
    inputs: list[Value]
    captured: list[tf.Tensor]
    calls: list[Call]
    results: list[Value]
    constant_bytes: int
    tail: set[Call]
    traced: list[Call]

    def groups(self) -> list[list[Call]]:
        """The calls in their order, those of the tail that follow one another together: they run once, as one."""
        found: list[list[Call]] = []
        for call in self.calls:
            if call.type == "Const":
                continue
            if call in self.tail and found and found[-1][0] in self.tail:
                found[-1].append(call)
            else:
                found.append([call])
        return found
