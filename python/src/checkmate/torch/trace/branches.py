# SPDX-License-Identifier: Apache-2.0
"""Models whose code asks whether torch.compile traces it, and computes something else then.

The state-space models of transformers (Mamba and its kin) go through a sequence position by position in eager mode, and by
an associative scan when they are compiled: other bits, and half as many bytes again. A plan is of what eager mode computes.
"""

from __future__ import annotations

import torch

#: Attributes of modules that allow the other computation; false in eager mode, whatever they are.
_SWITCHES = ("use_associative_scan",)


def as_in_eager_mode(model: object) -> list[str]:
    """Switches off what only compiled code does, and gives the names of the modules; what eager mode does stays as it is."""
    found = []
    for name, module in model.named_modules() if isinstance(model, torch.nn.Module) else ():
        for switch in _SWITCHES:
            if getattr(module, switch, None) is True:
                setattr(module, switch, False)
                found.append(f"{name}.{switch}" if name else switch)
    return found
