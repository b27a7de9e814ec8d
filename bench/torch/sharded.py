# SPDX-License-Identifier: Apache-2.0
"""Parameters spread over processes by FSDP2 or by tensor parallelism, over gloo, each process within a budget: bytes, gradients and calls.

sharded.py [--case NAME] [--way NAME] [--ranks 2,4] [--shares 1,0.7,0.5] [--seconds N] [--close] [--rounds N] [--records FILE] [--table FILE]
           [--machine TEXT] [--fast]

Ways: "fsdp2", fully_shard around every block and the whole; "tensor", parallelize_module: projections of attention and of the layers behind it by
columns, then by rows; "sequence", that with norms and residuals spread along the sequence. Budgets are shares of what a process took without
checkmate, and "least", the smallest that is found. A process' peak is what its allocator handed out during a step and what it held before.
Gradients and running statistics are compared bit for bit with those without checkmate, and the calls between processes are counted.

--close: instead, FSDP2 with torch.utils.checkpoint around every block, side by side with a plan for its peak: both take turns, a step each.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
from typing import Any

import physical
import pipeline
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional

import checkmate.torch
from checkmate.torch.distributed import exchange


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _width = x.shape
        q, k, v = (projection(x).view(batch, length, -1, 16).transpose(1, 2) for projection in (self.q, self.k, self.v))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(attended.transpose(1, 2).reshape(batch, length, -1))


class Feed(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.gelu(self.up(x), approximate="tanh"))


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.feed, self.dropout = Attention(width), Feed(width), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.feed(self.norm2(x)))


class GPT(nn.Module):
    """8 layers of width 128, 512 tokens."""

    def __init__(self, *, fast: bool) -> None:
        super().__init__()
        width, depth = (32, 2) if fast else (128, 8)
        self.embedding = nn.Embedding(512, width)
        self.blocks = nn.ModuleList(Layer(width) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 512, bias=False)

    def forward(self, tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), target.flatten())


class ResNet(nn.Module):
    """A ResNet-18 of width 16."""

    def __init__(self, *, fast: bool) -> None:
        super().__init__()
        parts, *_data = pipeline.resnet(1, fast)
        self.stem, self.blocks, self.head = parts[0], nn.ModuleList(parts[1:-1]), parts[-1]

    def forward(self, images: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.stem(images)
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(x), target)


def data_of(case: str, *, fast: bool) -> tuple[torch.Tensor, torch.Tensor]:
    if case == "gpt":
        rows, length = (2, 32) if fast else (4, 256)
        return torch.randint(0, 512, (rows, length)), torch.randint(0, 512, (rows, length))
    rows = 4 if fast else 32
    return torch.randn(rows, 3, 32, 32), torch.randint(0, 10, (rows,))


MODELS = {"gpt": GPT, "resnet": ResNet}
WAYS = ("fsdp2", "tensor", "sequence")


def spread(model: Any, way: str) -> nn.Module:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    if way == "fsdp2":
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    if isinstance(model, ResNet):
        parallelize_module(model.head, mesh, {"2": ColwiseParallel(output_layouts=Replicate())})
        return model
    whole = Shard(1) if way == "sequence" else Replicate()
    columns = {f"{part}.{name}": ColwiseParallel() for part, names in (("attention", "qkv"), ("feed", ["up"])) for name in names}
    rows = {name: RowwiseParallel(output_layouts=whole) for name in ("attention.out", "feed.down")}
    for block in model.blocks:
        plan: dict[str, Any] = columns | rows
        if way == "sequence":
            gathered = {part: PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)) for part in ("attention", "feed")}
            plan = {"norm1": SequenceParallel(), "norm2": SequenceParallel()} | gathered | plan
        parallelize_module(block, mesh, plan)
    if way == "sequence":
        parallelize_module(model, mesh, {"embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(),
                                         "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})  # fmt: skip
    return model


def local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


class Process:
    def __init__(self, rank: int, case: str, way: str, *, fast: bool) -> None:
        self.rank, self.case, self.way, self.fast = rank, case, way, fast
        torch.manual_seed(100 + (rank if way == "fsdp2" else 0))  # other data on every rank, where they are copies of the model
        self.data = data_of(case, fast=fast)

    def model(self, *, checkpoints: bool = False) -> Any:
        torch.manual_seed(0)
        model: Any = MODELS[self.case](fast=self.fast)
        if checkpoints:
            model.blocks = nn.ModuleList(checkpoint_wrapper(block) for block in model.blocks)
        return spread(model.train(), self.way)

    def step(self, call: Any, model: nn.Module) -> None:
        model.zero_grad(set_to_none=True)
        torch.manual_seed(7 + (self.rank if self.way == "fsdp2" else 0))
        call(*self.data).backward()

    def held(self, model: nn.Module) -> int:
        return physical.held_bytes(nn.Module(), [*map(local, model.parameters()), *model.buffers(), *self.data])

    def run(self, budget: int | str | None, seconds: float) -> dict[str, Any]:
        """The peak of a step, its calls between processes and what it gave; the plan of one within a budget."""
        model = self.model()
        call = model if budget is None else checkmate.torch.compile(model, budget, time_limit=seconds)
        self.step(call, model)
        self.step(call, model)
        found = [local(p.grad).clone() for p in model.parameters()] + [b.clone() for b in model.buffers()]
        calls = self.calls(call, model, planned=budget is not None)
        model.zero_grad(set_to_none=True)
        made: dict[str, Any] = {"measured": self.held(model) + physical.allocator_peak(lambda: self.step(call, model)), "found": found, "calls": calls}
        if budget is not None:
            (plan,) = checkmate.torch.plans(call)
            made |= {"budget": plan.budget_bytes, "planned": plan.peak_bytes, "overhead": plan.overhead}
        return made

    def within(self, budget: int | str, seconds: float) -> dict[str, Any]:
        """As `run`; where nothing fits, with the budget that the error names, in all processes."""
        try:
            return self.run(budget, seconds) | {"note": ""}
        except checkmate.torch.InfeasibleError as error:
            enough: list[Any] = [None] * dist.get_world_size()
            dist.all_gather_object(enough, error.smallest_known)
            torch._dynamo.reset()
            return self.run(max(enough), seconds) | {"note": f"not {budget:,}"}

    def calls(self, call: Any, model: nn.Module, *, planned: bool) -> int:
        """Between processes, in a step."""
        if self.way != "fsdp2" and not planned:
            with torch.profiler.profile() as profile:
                self.step(call, model)
            return sum(event.name.startswith("gloo:") for event in profile.events())
        from torch.distributed.fsdp._fully_shard import _fsdp_param_group

        ours = [(exchange, "gather"), (exchange, "mean" if self.way == "fsdp2" else "_reduce")]
        places: list[Any] = ours if planned else [(_fsdp_param_group, "foreach_all_gather"), (_fsdp_param_group, "foreach_reduce")]
        originals = [getattr(owner, name) for owner, name in places]
        count = 0

        def counting(original: Any) -> Any:
            def counted(*args: Any, **kwargs: Any) -> Any:
                nonlocal count
                count += 1
                return original(*args, **kwargs)

            return counted

        for (owner, name), original in zip(places, originals, strict=True):
            setattr(owner, name, counting(original))
        try:
            self.step(call, model)
        finally:
            for (owner, name), original in zip(places, originals, strict=True):
                setattr(owner, name, original)
        return count

    def close(self, seconds: float, rounds: int) -> dict[str, Any]:
        """Checkpoints around every block, and the plan for the peak of that, a step each in turn. Times are until the last process is done."""
        theirs = self.model(checkpoints=True)
        for _ in range(2):
            self.step(theirs, theirs)
        theirs.zero_grad(set_to_none=True)
        peak = self.held(theirs) + physical.allocator_peak(lambda: self.step(theirs, theirs))
        all_peaks: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(all_peaks, peak)
        peak = min(all_peaks)
        ours, plain = self.model(), self.model()
        call = checkmate.torch.compile(ours, peak, time_limit=seconds)
        ways = [("checkpoints", theirs, theirs), ("ours", call, ours), ("plain", plain, plain)]
        times = pipeline.take_turns({name: lambda run=run, model=model: self.step(run, model) for name, run, model in ways}, rounds)  # type: ignore[misc]
        ours.zero_grad(set_to_none=True)
        measured = self.held(ours) + physical.allocator_peak(lambda: self.step(call, ours))
        (plan,) = checkmate.torch.plans(call)
        return {"peak": peak, "measured": measured, "overhead": plan.overhead} | pipeline.compared(times)


def _work(rank: int, port: int, ranks: int, folder: str, options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    os.environ["XDG_CACHE_HOME"] = folder
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the profiler reports every start
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    try:
        with open(pathlib.Path(folder) / f"{rank}.jsonl", "w", encoding="utf-8") as out:
            for case in options.case or MODELS:
                for way in options.way or WAYS:
                    if (way == "sequence" and case == "resnet") or (way != "fsdp2" and (ranks > 2 or options.close)):
                        continue
                    process = Process(rank, case, way, fast=options.fast)
                    common = {"case": case, "way": way, "ranks": ranks, "rank": rank}
                    if options.close:
                        rows = [process.close(options.seconds, options.rounds)]
                    else:
                        plain = process.run(None, 0)
                        tops: list[Any] = [None] * ranks
                        dist.all_gather_object(tops, plain["measured"])
                        rows = []
                        for share in [*options.shares, "least"]:
                            torch._dynamo.reset()
                            made = process.within("min" if share == "least" else int(share * min(tops)), options.seconds)
                            equal = all(torch.equal(a, b) for a, b in zip(made.pop("found"), plain["found"], strict=True))
                            rows.append({"share": share, "eager": plain["measured"], "equal": equal, "without": plain["calls"]} | made)
                    for row in rows:
                        out.write(json.dumps(common | row) + "\n")
                    out.flush()
                    if rank == 0:
                        print(f"{case}, {way}, {ranks} processes: done", file=sys.stderr, flush=True)
                    dist.barrier()
    finally:
        dist.destroy_process_group()


#: Title and first lines of the files with the tables.
HEAD = """# FSDP2 and tensor parallelism within a budget

Processes over gloo, each within shares of what it took without checkmate, and in the least that is found. Measured is what its allocator
handed out during a step and what it held before. Gradients and running statistics are compared bit for bit with those without checkmate.
Calls are those between processes in a step, ours and without. Overheads are planned. More:
[docs/DISTRIBUTED.md](../../docs/DISTRIBUTED.md#fsdp2).

"""
CLOSE = """# FSDP2: plans compared with checkpoints around every block

A plan for the peak that checkpoints around every block have, in the same processes over gloo. Both, and FSDP2 without either, take turns, a step
each; times are until the last process is done, medians of ratios of the same round, quartiles in parentheses. More:
[docs/DISTRIBUTED.md](../../docs/DISTRIBUTED.md#fsdp2).

"""


def table(rows: list[dict[str, Any]]) -> str:
    titles = ["network", "way", "processes", "process", "without, MB", "budget", "budget, MB", "planned, MB", "measured, MB", "overhead", "calls, without",
              "bit for bit"]  # fmt: skip
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        share = row["share"] if isinstance(row["share"], str) else f"{100 * row['share']:.0f} %"
        share += f", {row['note']}" if row["note"] else ""
        mb = {key: f"{row[key] / 1e6:.2f}" for key in ("eager", "budget", "planned", "measured")}
        over = "" if row["measured"] <= row["budget"] else " (above)"
        lines.append(f"| {row['case']} | {row['way']} | {row['ranks']} | {row['rank']} | {mb['eager']} | {share} | {mb['budget']} | {mb['planned']} | "
                     f"{mb['measured']}{over} | {100 * row['overhead']:.1f} % | {row['calls']}, {row['without']} | {'yes' if row['equal'] else 'no'} |")  # fmt: skip
    held, equal = sum(row["measured"] <= row["budget"] for row in rows), sum(row["equal"] for row in rows)
    return "\n".join([*lines, "", f"{held} of {len(rows)} budgets held; {equal} of {len(rows)} bit for bit."]) + "\n"


def close_table(rows: list[dict[str, Any]]) -> str:
    titles = ["network", "processes", "process", "peak of checkpoints, MB", "of the plan, MB", "a step without, ms", "checkpoints over it", "plan over it",
              "predicted", "plan over checkpoints"]  # fmt: skip
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        over = "" if row["measured"] <= row["peak"] else " (above)"
        lines.append(f"| {row['case']} | {row['ranks']} | {row['rank']} | {row['peak'] / 1e6:.2f} | {row['measured'] / 1e6:.2f}{over} | "
                     f"{1e3 * row['plain']:.0f} | {row['checkpoints']:.2f} | {row['ours']:.2f} | {1 + row['overhead']:.2f} | "
                     f"{row['ratio']:.2f} ({row['least']:.2f} to {row['most']:.2f}) |")  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", action="append", choices=MODELS)
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--ranks", type=lambda text: [int(number) for number in text.split(",")], default=[2, 4])
    parser.add_argument("--shares", type=lambda text: [float(share) for share in text.split(",")], default=[1.0, 0.7, 0.5])
    parser.add_argument("--seconds", type=float, default=2.0, help="of a search")
    parser.add_argument("--close", action="store_true", help="side by side with checkpoints around every block")
    parser.add_argument("--rounds", type=int, default=15, help="steps of each way that are timed")
    parser.add_argument("--fast", action="store_true", help="networks of a few kilobytes")
    parser.add_argument("--records", type=pathlib.Path, help="where to write what was measured, a JSON object a line")
    parser.add_argument("--table", type=pathlib.Path, help="where to write the table, in addition to printing it")
    pipeline.add_machine(parser)
    options = parser.parse_args()
    rows = [row for ranks in options.ranks for row in pipeline.launch(_work, ranks, options)]
    text = close_table(rows) if options.close else table(rows)
    if options.records is not None:
        options.records.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if options.table is not None:
        command = f"bench/torch/run.sh --sharded{' --close' if options.close else ''} --ranks {','.join(map(str, options.ranks))} --seconds {options.seconds:g}"
        options.table.write_text((CLOSE if options.close else HEAD) + pipeline.made([command], options.machine) + text)
    print(text, end="")
    sys.exit(any(row["measured"] > row["peak" if options.close else "budget"] or not row.get("equal", True) for row in rows))


if __name__ == "__main__":
    main()
