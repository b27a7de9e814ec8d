# SPDX-License-Identifier: Apache-2.0
"""What a call does in addition to computing its outputs: draws random numbers, mutates, talks to other processes."""

from __future__ import annotations

import torch
from torch import fx

from ..distributed import exchange, shards

#: Marks, in a node's metadata, a call that must not be computed again.
ONCE = "checkmate_once"

#: Marks a call that must not be computed again because the user's checkpoint policies say so.
PINNED = "checkmate_pinned"

#: In the metadata of a call that the backward pass makes instead of holding a value of the forward pass: that value's call.
COPY_OF = "checkmate_copy_of"


def origin(node: fx.Node) -> fx.Node:
    """The call of the model that this one is, or is a copy of. They draw the same random numbers."""
    return node.meta.get(COPY_OF, node)


_OURS = {exchange.ALL_REDUCE, exchange.ALL_GATHER, exchange.REDUCE_SCATTER, shards.REDUCE}
_COLLECTIVES = {"_c10d_functional", "c10d_functional", "c10d", "_dtensor"}


def is_random(node: fx.Node) -> bool:
    """Draws from a generator, so that computing it again gives something else unless the generator's state is replayed."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    # Operators that only may draw: with probability zero, or outside of training, they do not.
    for argument, value in zip(target._schema.arguments, node.args, strict=False):
        if argument.name in ("dropout_p", "p") and value == 0.0:
            return False
    return True


def _has_effects(target: object) -> bool:
    """As PyTorch's registry has it; before that, operators with effects were among fx's."""
    try:
        from torch._higher_order_ops.effects import has_effects
    except ImportError:
        return False
    # PyTorch 2.6 also asks for the arguments, to find script objects among them.
    return bool(has_effects(target, (), {}) if has_effects.__code__.co_argcount == 3 else has_effects(target))  # type: ignore[call-arg]


def runs_once(node: fx.Node) -> bool:
    """Must not be computed again: writes to an operand, has a side effect, is a collective, or draws from a generator
    of the user's, whose state is not replayed."""
    target = node.target
    if any(isinstance(value, torch.Generator) for value in (*node.args, *node.kwargs.values())):
        return True
    if node.meta.get(ONCE):
        return True
    if target is shards.GATHER:
        return not shards.may_repeat(node)
    if isinstance(target, torch._ops.OpOverload):
        once = target._schema.is_mutable or target.namespace in _COLLECTIVES or target in _OURS or target in fx.node._side_effectful_functions
        return once or _has_effects(target)
    return isinstance(target, torch._ops.HigherOrderOperator)
