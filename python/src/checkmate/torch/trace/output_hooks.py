# SPDX-License-Identifier: Apache-2.0
"""Models of transformers that record hidden states, attentions or router logits.

They do so by hooks, which the first call that records installs under a lock. Dynamo traces the hooks, but not the lock.
"""

from __future__ import annotations

import sys

import torch


def install_hooks(error: Exception, model: object) -> bool:
    """Where tracing ended in that first call: installs the hooks, as the call does in eager mode. Whether there were any to install."""
    capturing = sys.modules.get("transformers.utils.output_capturing")
    if capturing is None or str(capturing.__file__) not in str(error):
        return False
    owner = getattr(model, "__self__", model)  # of a module that is compiled in place, a method is
    found = False
    for module in owner.modules() if isinstance(owner, torch.nn.Module) else ():
        if capturing._CAN_RECORD_REGISTRY.get(module) and not getattr(module, "_output_capturing_hooks_installed", False):
            capturing.maybe_install_capturing_hooks(module)
            found = True
    return found
