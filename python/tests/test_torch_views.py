# SPDX-License-Identifier: Apache-2.0
"""Views of what was rewritten keep the storage that they look at: nothing is written over it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import FAST, trace  # noqa: E402
from torch.nn import functional  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.fx import dataflow  # noqa: E402
from checkmate.torch.plan import prepare  # noqa: E402


class Residual(torch.nn.Module):
    """A dropout's result, three-dimensional, is seen flat by the layers that train on it, and added to what they make."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.last = torch.nn.LayerNorm(16), torch.nn.LayerNorm(16)
        self.query, self.value = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = functional.dropout(self.norm(x), 0.1)
        y = self.value(h) * torch.sigmoid(self.query(h))
        return self.last(functional.dropout(y, 0.1) + h).square().sum()


@pytest.mark.parametrize("budget", ["100%", "80%"])
def test_a_dropouts_result_is_not_written_over_under_its_views(budget: str) -> None:
    torch._dynamo.reset()
    model, x = Residual(), torch.randn(4, 8, 16, requires_grad=True)
    compiled = ct.compile(model, budget, **FAST)
    for mine, theirs in zip(trace(model, compiled, [x]), trace(model, model, [x]), strict=True):
        assert (mine is None and theirs is None) or torch.equal(mine, theirs)


def test_rewritten_graphs_have_no_view_without_a_base(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    seen = []
    build = dataflow.build

    def looked_at(module: torch.fx.GraphModule, *args: object, **options: object) -> object:
        for node in module.graph.nodes:
            if node.target in (torch.ops.aten.view.default, torch.ops.aten.t.default, torch.ops.aten._unsafe_view.default):
                seen.append(dataflow.storage_key(node.meta["val"]) == dataflow.storage_key(node.args[0].meta["val"]))
        return build(module, *args, **options)

    monkeypatch.setattr(prepare.dataflow, "build", looked_at)
    ct.compile(Residual(), "100%", **FAST)(torch.randn(4, 8, 16))
    assert seen
    assert all(seen)
