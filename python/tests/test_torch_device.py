# SPDX-License-Identifier: Apache-2.0
"""Plans for a device that is not there: `explain(..., device=...)`."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import results  # noqa: E402
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.nn import functional  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402
from checkmate.planning import device as models  # noqa: E402
from checkmate.planning import frontier as shown  # noqa: E402
from checkmate.torch.predict import absent_device  # noqa: E402
from checkmate.torch.rewrite import attention  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


class Network(nn.Module):
    """Blocks with a name each; 250 in float32 is no multiple of 512 bytes."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)) for _ in range(layers))
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def network(width: int = 250, layers: int = 6) -> nn.Module:
    return Network(width, layers)


class Attends(nn.Module):
    """Attention over a sequence; `options` are the function's own."""

    def __init__(self, width: int = 64, heads: int = 4, **options: Any) -> None:
        super().__init__()
        self.project, self.heads, self.options = nn.Linear(width, 3 * width), heads, options

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.project(x).chunk(3, -1))
        return functional.scaled_dot_product_attention(q, k, v, mask, **self.options).square().mean()


def explain(model: Any, *inputs: torch.Tensor, device: str = "H100", **options: Any) -> ct.Frontier:
    return ct.explain(model, inputs, device=device, **{"show": None, "time_limit": 2.0, "budgets": 4} | options)


def names(found: ct.Frontier) -> list[str]:
    return [op.name for op in found.graph.ops]


def test_unknown_devices_and_what_cannot_be() -> None:
    model, x = network(), torch.randn(8, 250)
    with pytest.raises(ValueError, match=r'no model of a device "H1000"; there are V100, K80, T4, A100, H100, H200, Xeon'):
        explain(model, x, device="H1000")
    with pytest.raises(TypeError, match="V100"):
        explain(model, x, device=torch.device("cuda"))
    with pytest.raises(ValueError, match=r'costs="measure" runs the model.*"H100" is not here'):
        explain(model, x, costs="measure")
    for option, value in {"compiler": "inductor", "counts": "reserved", "dynamic": True}.items():
        with pytest.raises(ValueError, match=f"leave {option} out"):
            explain(model, x, **{option: value})
    with pytest.raises(ct.UnsupportedError, match="recurrent"):
        explain(nn.LSTM(8, 8), torch.randn(4, 2, 8), loss="all")
    assert models.names() == ["V100", "K80", "T4", "A100", "H100", "H200", "Xeon"]
    assert models.find("h100") == models.find("H100")


def test_on_meta_fake_and_real_tensors_the_plan_is_the_same() -> None:
    with torch.device("meta"):
        on_meta, meta = network(), torch.empty(512, 250)
    with FakeTensorMode():
        faked, fake = network(), torch.empty(512, 250)
    real, x = network(), torch.randn(512, 250)
    before = [p.detach().clone() for p in real.parameters()]
    found = [explain(on_meta, meta), explain(faked, fake), explain(real, x), explain(on_meta, x)]
    for other in found[1:]:
        assert other.graph.ops == found[0].graph.ops
        assert other.graph.tensors == found[0].graph.tensors
    assert all(p.device.type == "meta" for p in on_meta.parameters())
    assert all(torch.equal(p, b) and p.grad is None for p, b in zip(real.parameters(), before, strict=True))
    assert all(isinstance(p, nn.Parameter) for p in real.parameters())


class Tied(nn.Module):
    """A weight that has two names, a view of another's memory, a buffer, and a tensor that is neither."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(100, 24), nn.Linear(24, 100, bias=False)
        self.out.weight = self.embed.weight
        both = torch.randn(2, 24)
        self.first, self.second = nn.Parameter(both[0]), nn.Parameter(both[1])
        self.register_buffer("scale", torch.ones(24))
        self.offset = torch.ones(24)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = (self.embed(ids) * self.first + self.second) * self.scale + self.offset
        return functional.cross_entropy(self.out(x).flatten(0, 1), ids.flatten())


def test_stand_ins_have_the_bytes_of_what_they_stand_for() -> None:
    """On a device of the CPU's kind the graph is that of a plan for this machine, but for its costs."""
    for make_model, x in ((Tied, torch.randint(0, 100, (4, 16))), (network, torch.randn(64, 250))):
        model = make_model()
        here = ct.explain(model, (x,), costs="estimate", show=None, budgets=1).graph
        there = explain(model, x, device="Xeon", budgets=1).graph
        assert [(t.bytes, t.alias_of) for t in here.tensors] == [(t.bytes, t.alias_of) for t in there.tensors]
        assert [(op.inputs, op.outputs, op.recomputable) for op in here.ops] == [(op.inputs, op.outputs, op.recomputable) for op in there.ops]
        assert here.fixed_bytes == there.fixed_bytes
        assert [op.cost for op in here.ops] != [op.cost for op in there.ops]
    tied = Tied()
    offset = tied.offset
    explain(tied, torch.randint(0, 100, (4, 16)), budgets=1)
    assert tied.offset is offset
    assert tied.out.weight is tied.embed.weight


def test_a_language_model_on_meta() -> None:
    """The example of the README."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.LlamaConfig(vocab_size=3000, hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=512)  # fmt: skip
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
        ids = torch.empty(1, 512, dtype=torch.long)
    optimizer = torch.optim.AdamW(model.parameters())
    found = ct.explain(model, {"input_ids": ids, "labels": ids}, optimizer=optimizer, device="H100", budgets=3, time_limit=2.0, show=None)
    assert "flash attention (3 calls)" in found.notes[-1]
    link, step = models.find("H100").link, found.ways[0].cost / 1e9
    assert link is not None and link.out_bytes_per_s > 4e10
    carried = next(note for note in found.notes if "that a step computes" in note)
    assert f"{shown.size(int(link.out_bytes_per_s * step))} out" in carried and f"{shown.size(found.baseline_peak_bytes)} are in memory" in carried
    weights = sum(p.numel() * 2 for p in model.parameters())
    assert found.graph.fixed_bytes >= 2 * weights
    assert found.baseline_peak_bytes > 4 * weights
    assert found.ways[1].note.startswith("torch.utils.checkpoint around each of 3: model.layers.0")
    assert max(t.bytes for t in found.graph.tensors) == 4 * 512 * 3000, "logits in float32 are the largest, not pairs of positions"


def test_frontier_is_verified_and_monotone() -> None:
    found = explain(network(), torch.randn(2048, 250), budgets=5)
    known = [s for s in found.solutions if s.schedule is not None]
    assert len(known) > 2
    assert known[-1].peak_bytes < 0.8 * found.baseline_peak_bytes
    for solution in known:
        assert solution.schedule.verify(found.graph, solution.budget_bytes)
        assert solution.schedule.simulate(found.graph).peak_bytes == solution.peak_bytes
    costs = [s.cost for s in known]
    assert costs == sorted(costs)


def test_predicted_time_is_the_sum_of_modelled_calls() -> None:
    """By hand, for a product that its arithmetic bounds: rates from the data sheet, times the efficiencies."""
    size, h100 = 4096, models.find("H100")
    found = explain(nn.Linear(size, size, bias=False), torch.empty(size, size, device="meta"), budgets=1)
    assert found.graph.cost_unit == "ns"
    total = sum(op.cost for op in found.graph.ops)
    assert found.step_seconds == pytest.approx(total / 1e9)
    assert f"{total / 1e6:.2f} ms" in str(found)
    product = size**3 / (494.7e12 / 2 * 0.22) * 1e9 + 5000
    assert [op.cost for op in found.graph.ops if op.name.startswith("mm") and op.cost] == [round(product)] * 2
    assert h100.nanoseconds(models.Work("matrix", "float32", size**3, 0)) == pytest.approx(product)
    half = explain(nn.Linear(size, size, bias=False).bfloat16(), torch.empty(size, size, device="meta", dtype=torch.bfloat16), budgets=1)
    product = size**3 / (989.4e12 / 2 * h100.half_efficiency) * 1e9 + 5000
    assert [op.cost for op in half.graph.ops if op.name.startswith("mm") and op.cost] == [round(product)] * 2
    # What moves bytes goes by the memory's rate; views take nothing.
    scaled = explain(lambda x: (x * 2).t().sum(), torch.empty(size, size, device="meta", requires_grad=True), budgets=1)
    (mul, *_) = [op for op in scaled.graph.ops if op.name == "mul"]
    assert mul.cost == pytest.approx(2 * 4 * size**2 / (3350e9 * 0.75) * 1e9 + 5000, abs=1)
    assert [op.cost for op in scaled.graph.ops if op.name == "t"] == [0]


def test_bytes_are_rounded_as_the_device_allocates() -> None:
    model, x = network(), torch.randn(3, 250)
    with torch.device("meta"):
        sgd = torch.optim.SGD(network().parameters(), momentum=0.9)
    gpu, cpu = explain(model, x, budgets=1), explain(model, x, budgets=1, device="Xeon")
    assert all(t.bytes % 512 == 0 for t in gpu.graph.tensors)
    assert any(t.bytes % 512 for t in cpu.graph.tensors)
    assert gpu.baseline_peak_bytes > cpu.baseline_peak_bytes
    rounded = sum(-(-p.numel() * 4 // 512) * 512 for p in model.parameters())
    assert explain(model, x, budgets=1, optimizer=sgd).graph.fixed_bytes - gpu.graph.fixed_bytes == rounded
    here = ct.explain(model, (x,), costs="estimate", show=None, budgets=1)
    assert any(t.bytes % 512 for t in here.graph.tensors), "a plan for this machine is as before"
    assert here.step_seconds is None
    assert not here.notes
    assert "predicted" not in str(here)


def test_an_optimizer_of_parameters_without_data_is_counted() -> None:
    with torch.device("meta"):
        model, x = network(), torch.empty(8, 250)
    with FakeTensorMode():
        faked = network()
    real = network()
    adam = [ct.explain(m, (x,), device="H100", budgets=1, show=None, optimizer=torch.optim.Adam(m.parameters())) for m in (model, faked, real)]
    assert len({found.graph.fixed_bytes for found in adam}) == 1
    assert adam[0].graph.fixed_bytes >= 2 * 4 * sum(p.numel() for p in model.parameters())
    assert any("optimizer's state" in line for line in adam[0].notes)


@pytest.mark.parametrize("device", ["H100", "V100", "Xeon"])
def test_attention_is_the_kernel_of_the_device(device: str) -> None:
    """Nothing in the square of the sequence, with dropout too, which the CPU takes apart."""
    length = 1024
    model = Attends(is_causal=True, dropout_p=0.1 if device != "Xeon" else 0.0).to(torch.bfloat16)
    found = explain(model, torch.randn(2, length, 64, dtype=torch.bfloat16), device=device, budgets=1)
    name = {"H100": "_scaled_dot_product_flash_attention", "V100": "_scaled_dot_product_efficient_attention",
            "Xeon": "_scaled_dot_product_flash_attention_for_cpu"}[device]  # fmt: skip
    assert name in names(found)
    assert f"{name}_backward" in names(found)
    assert max(t.bytes for t in found.graph.tensors) < 2 * 4 * length * length
    said = {"H100": "flash attention (1 call)", "V100": "memory-efficient attention (1 call)", "Xeon": "as PyTorch traces them on the CPU"}
    assert said[device] in found.notes[-1]


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_attention_inside_of_pytorchs_own_layers(dropout: float) -> None:
    """`nn.MultiheadAttention` is one call in the graph that Dynamo traces."""
    length = 512
    model = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout, batch_first=True, dtype=torch.bfloat16)
    found = explain(model, torch.randn(2, length, 64, dtype=torch.bfloat16), device="H100", budgets=1)
    assert max(t.bytes for t in found.graph.tensors) < 2 * 4 * length * length
    assert "flash attention (1 call)" in found.notes[-1]


def test_which_kernel_takes_what() -> None:
    def chosen(size: int = 64, kind: torch.dtype = torch.bfloat16, heads: int = 8, mask: torch.Tensor | None = None, flash: bool = True) -> str:
        q, k = torch.empty(1, 8, 16, size, dtype=kind, device="meta"), torch.empty(1, heads, 16, size, dtype=kind, device="meta")
        return attention.kernel(q, k, k, mask, flash=flash, grouped=True)

    mask = torch.zeros(16, 16, dtype=torch.bool, device="meta")
    assert [chosen(), chosen(mask=mask), chosen(kind=torch.float32), chosen(flash=False)] == ["flash", "efficient", "efficient", "efficient"]
    assert [chosen(heads=2), chosen(heads=2, mask=mask), chosen(size=512), chosen(size=20, flash=False)] == ["flash", "math", "efficient", "math"]
    assert chosen(kind=torch.float64) == "math"


def test_masked_grouped_and_odd_heads_are_traced() -> None:
    x, mask = torch.randn(2, 64, 64, dtype=torch.float32), torch.ones(64, 64, dtype=torch.bool)
    masked = explain(Attends(), x, mask, budgets=1)
    assert "memory-efficient attention (1 call)" in masked.notes[-1]
    odd = explain(Attends(width=60).bfloat16(), torch.randn(2, 64, 60, dtype=torch.bfloat16), budgets=1)
    assert "flash attention (1 call)" in odd.notes[-1]
    apart = explain(Attends(width=24), torch.randn(2, 64, 24), torch.zeros(64, 64, requires_grad=True), budgets=1)
    assert "taken apart" in apart.notes[-1]
    assert not any("attention" in name for name in names(apart))


def test_arithmetic_of_attention() -> None:
    """Against the products that the formula has, pairs that the mask hides left out."""
    rows, width, heads = 96, 32, 4
    q = torch.empty(2, heads, rows, width, device="meta", dtype=torch.bfloat16)
    model = Attends(width=heads * width, heads=heads, is_causal=True).bfloat16()
    seen: dict[str, float] = {}
    original = attention.macs

    def spy(node: Any, values: Any) -> float | None:
        found = original(node, values)
        if found is not None:
            seen[node.name] = found
        return found

    attention.macs = spy
    try:
        explain(model, torch.empty(2, rows, heads * width, dtype=torch.bfloat16, device="meta"), budgets=1)
    finally:
        attention.macs = original
    pairs = 2 * heads * int(torch.ones(rows, rows).tril().sum())
    name = "_scaled_dot_product_flash_attention"
    assert q.shape[-1] == width
    assert seen == {name: pairs * 2 * width, f"{name}_backward": pairs * 5 * width}


def test_classes_of_convolutions_are_those_of_the_models() -> None:
    """The rate of each class, told from the costs on a device whose arithmetic bounds them."""
    x = torch.empty(64, 64, 64, 64, device="meta")
    k80 = models.find("K80")
    cases = {"conv3": nn.Conv2d(64, 256, 3, padding=1, bias=False), "matrix": nn.Conv2d(64, 256, 3, stride=2, padding=1, bias=False),
             "grouped": nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False)}  # fmt: skip
    for kind, layer in cases.items():
        found = explain(layer, x, device="K80", budgets=1)
        out = layer.to("meta")(x)
        macs = math.prod(out.shape) * math.prod(layer.weight.shape[1:])
        moved = 4 * (x.numel() + layer.weight.numel() + out.numel())
        assert [op.cost for op in found.graph.ops if op.name == "convolution"] == [round(k80.nanoseconds(models.Work(kind, "float32", macs, moved)))]
    work = [models.Work(kind, "float32", 1e12, 0) for kind in ("conv3", "matrix", "grouped")]
    assert len({k80.nanoseconds(w) for w in work}) == 3


def test_what_fits_is_told() -> None:
    with torch.device("meta"):
        wide, x = network(4096, 8), torch.empty(400_000, 4096)
    lines: list[str] = []
    found = ct.explain(wide, (x,), device="h100", budgets=3, time_limit=2.0, show=lines.append)
    assert results(lines) == str(found).splitlines()
    assert found.baseline_peak_bytes > 80e9
    assert found.chosen is not None
    assert found.chosen.peak_bytes is not None
    assert found.chosen.peak_bytes <= 80_000_000_000
    assert found.ways[-1].name == "the plan for 80.0 GB"
    assert found.chosen.schedule.verify(found.graph, 80_000_000_000)
    text = "\n".join(found.notes)
    over = re.search(r"keeping everything, (\d+) GB: does not fit, ([\d.]+) GB too much", text)
    assert over is not None
    assert float(over[2]) == pytest.approx(found.baseline_peak_bytes / 1e9 - 80, abs=0.6)
    assert re.search(r"a plan of [\d.]+ GB: fits, [\d.]+ [GMk]?B to spare, [\d.]+ m?s a step", text)
    assert "nothing was measured" in text
    assert "products in float32 as TF32 at 22% of 494.7 TFLOP/s" in text
    small = explain(network(), torch.randn(8, 250), budgets=1)
    assert any(re.fullmatch(r"  keeping everything, [\d.]+ MB: fits, 80.0 GB to spare", line) for line in small.notes)


def test_a_budget_that_does_not_fit_is_told() -> None:
    found = explain(network(), torch.randn(2048, 250), budget=1_000_000)
    assert found.chosen is not None
    assert found.chosen.schedule is None
    assert any(line.startswith("no schedule fits 1.00 MB: the least of these is ") for line in str(found).splitlines())


def test_the_least_is_searched_for() -> None:
    model, x = network(), torch.randn(2048, 250)
    least = explain(model, x, budgets=2, budget="min").chosen
    assert least is not None
    assert least.peak_bytes is not None
    assert least.peak_bytes <= 1.05 * checkmate.min_budget(explain(model, x, budgets=1).graph, time_limit=3.0).budget_bytes


def test_without_data_a_device_is_needed() -> None:
    with torch.device("meta"):
        model, x = network(), torch.empty(8, 250)
    with pytest.raises(ValueError, match=r'no data.*say device="H100"'):
        ct.explain(model, (x,), show=None)
    with FakeTensorMode(), pytest.raises(ValueError, match="outside of FakeTensorMode"):
        explain(model, x)
    with pytest.raises(ct.UnsupportedError, match="meta"):
        ct.compile(model, "90%")(x)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(ValueError, match="nothing was traced"):
        explain(model, x)


@pytest.mark.parametrize("kind", [torch.float64, torch.complex64])
def test_products_without_a_model_are_refused(kind: torch.dtype) -> None:
    with pytest.raises(ct.UnsupportedError, match=r"float64|complex64"):
        explain(nn.Linear(8, 8).to(kind), torch.randn(4, 8, dtype=kind))


def test_budgets_are_of_the_device_not_of_this_machine() -> None:
    model, x = network(), torch.randn(2048, 250)
    assert [explain(model, x, budgets=1, budget=b).ways[-1].name for b in (None, "auto")] == ["the plan for 80.0 GB", "the plan for 80.0 GB"]
    part = explain(model, x, budgets=2, budget="80%")
    assert part.chosen is not None
    assert part.chosen.peak_bytes is not None
    assert part.chosen.peak_bytes <= 0.8 * part.baseline_peak_bytes
    assert part.step_seconds == pytest.approx(part.chosen.cost / 1e9)
    assert part.step_seconds > part.graph.total_cost / 1e9


def test_dropout_is_a_gpus() -> None:
    """One kernel and a mask of a byte an element; on the CPU it is four calls."""
    model, x = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.3), nn.Linear(64, 1)), torch.randn(32, 64)
    assert "native_dropout" in names(explain(model, x, budgets=1))
    assert "native_dropout" not in names(explain(model, x, budgets=1, device="Xeon"))


def test_autocast_of_a_gpu_is_refused_and_the_cpus_is_traced() -> None:
    model, x = network(), torch.randn(512, 250)
    torch.set_autocast_enabled("cuda", True)
    try:
        with pytest.raises(ValueError, match=r'under torch.autocast\("cpu"'):
            explain(model, x)
    finally:
        torch.set_autocast_enabled("cuda", False)
    plain = explain(model, x, budgets=1)
    with torch.autocast("cpu", torch.bfloat16):
        half = explain(model, x, budgets=1)
    assert half.baseline_peak_bytes < plain.baseline_peak_bytes
    assert any(op.name.startswith("_to_copy") for op in half.graph.ops)


def test_no_plan_is_worse_than_checkpoints_in_the_same_memory() -> None:
    """However short the search is."""
    found = ct.explain(network(layers=150), (torch.randn(2048, 250),), costs="estimate", budgets=1, time_limit=0.01, show=None)
    by_hand, plan = found.ways[1], found.ways[-1]
    assert by_hand.name == "checkpoint every block"
    assert plan.name == "the plan, same memory"
    assert (plan.peak_bytes, plan.cost) <= (by_hand.peak_bytes, by_hand.cost)
    assert plan.cost <= by_hand.cost


def test_it_draws_and_reports(tmp_path: pathlib.Path) -> None:
    found = explain(network(), torch.randn(2048, 250), plot=tmp_path / "f.svg", report=tmp_path / "r.html")
    assert "modelled for H100" in (tmp_path / "f.svg").read_text()
    page = (tmp_path / "r.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "modelled for H100" in page
    assert found.report(tmp_path / "s.html", budget="90%") is None


def test_the_context_is_left() -> None:
    """A failed plan leaves the model and this machine's ways of counting as they were."""
    model = network()
    parameters = list(model.parameters())
    with pytest.raises(checkmate.CheckmateError):
        explain(model, torch.randn(8, 251))
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    with absent_device.bytes_of(None):
        assert any(t.bytes % 512 for t in ct.explain(model, (torch.randn(3, 250),), costs="estimate", show=None, budgets=1).graph.tensors)


_LARGE = """
import resource, sys, torch
from torch import nn
import checkmate.torch
with torch.device("meta"):
    model = nn.Sequential(*[nn.Sequential(nn.Linear(8192, 8192, bias=False), nn.ReLU()) for _ in range(8)], nn.Linear(8192, 1))
    x = torch.empty(8192, 8192)
weights = sum(p.numel() * p.element_size() for p in model.parameters())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = checkmate.torch.explain(model, (x,), device="A100", budgets=2, time_limit=1.0, show=None, optimizer=torch.optim.Adam(model.parameters()))
print(weights, found.baseline_peak_bytes, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_nothing_of_the_models_size_is_allocated() -> None:
    """Of 2 GB of weights, 8 GB with gradients and an optimizer, in a process of its own: the largest resident set."""
    pytest.importorskip("resource")
    done = subprocess.run([sys.executable, "-c", _LARGE], check=True, capture_output=True, text=True)
    weights, peak, more = map(int, done.stdout.split())
    assert weights > 2e9
    assert peak > 4 * weights
    assert more < 0.3e9


@dataclasses.dataclass(frozen=True)
class Batch:
    """As models of some libraries take their arguments: tensors in fields, and in what fields hold."""

    x: torch.Tensor
    more: dict[str, torch.Tensor]
    name: str = "batch"


class TakesBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, batch: Batch) -> torch.Tensor:
        return (self.body(batch.x) * batch.more["weight"]).mean()


def test_tensors_in_a_dataclass_get_stand_ins() -> None:
    def batch() -> Batch:
        return Batch(torch.empty(8, 250), {"weight": torch.empty(8, 1)})

    real = batch()
    told: list[str] = []
    ct.explain(TakesBatch(), (real,), device="H100", budgets=2, show=told.append)
    with torch.device("meta"):
        model, inputs = TakesBatch(), (batch(),)
    meta: list[str] = []
    ct.explain(model, inputs, device="H100", budgets=2, show=meta.append)
    assert results(meta)[0] == results(told)[0]
    with pytest.raises(ValueError, match='say device="H100"'):
        ct.explain(TakesBatch(), inputs)
