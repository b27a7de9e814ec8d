# SPDX-License-Identifier: Apache-2.0
"""A pipeline of two processes (torch.distributed.pipelining over gloo), each within its own budget: bytes and gradients.

pipeline.py [--case NAME] [--schedule NAME] [--shares 1,0.7,0.5] [--micro-batches N] [--seconds N] [--close] [--rounds N] [--records FILE]
            [--table FILE] [--machine TEXT] [--fast]

Each network is cut into two stages, each with half of its blocks. Budgets are shares of what the process took without checkmate, and "least",
the smallest budget that is found. A process' peak is what its allocator handed out during a step of the schedule, and what it held
before: parameters, buffers, its part of the batch and the labels, and the buffers of the pipeline. The first process to hold a row's budget
need not be the other one's: both have one. Gradients, losses and running statistics are compared bit for bit with the same pipeline without
checkmate; so the random numbers of a step, its parameters and its statistics begin the same.

--close: instead, stages with torch.utils.checkpoint around every block, side by side with plans for their peaks: both take turns, a step each.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import pathlib
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import cases
import physical
import torch
import torch.distributed as dist
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional

import checkmate.torch

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import kept  # noqa: E402

RANKS = 2


class Embedding(nn.Module):
    def __init__(self, vocabulary: int, length: int, width: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.tokens(tokens) + self.positions.weight


def _token_loss(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def gpt(batch: int, fast: bool) -> tuple[list[nn.Module], torch.Tensor, torch.Tensor, Any]:
    """A decoder in the manner of GPT-2, 8 layers of width 128, micro-batches of 4 sequences of 256 tokens."""
    width, length, depth, rows = (32, 32, 4, 4) if fast else (128, 256, 8, 4)
    layers = [cases.Layer(width, width // 16) for _ in range(depth)]
    parts = [Embedding(512, length, width), *layers, nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 512, bias=False))]
    tokens = torch.randint(0, 512, (batch * rows, length))
    return parts, tokens, tokens, _token_loss


def resnet(batch: int, fast: bool) -> tuple[list[nn.Module], torch.Tensor, torch.Tensor, Any]:
    """A ResNet-18 of width 16, micro-batches of 32 images of 32 x 32."""
    widths = [16, 16, 32, 64] if fast else [16, 16, 16, 32, 32, 64, 64, 128, 128]
    blocks = [cases.Residual(a, b, 1 + (a != b)) for a, b in itertools.pairwise(widths)]
    stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    parts = [stem, *blocks, nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))]
    rows = batch * (4 if fast else 32)
    return parts, torch.randn(rows, 3, 32, 32), torch.randint(0, 10, (rows,)), functional.cross_entropy


CASES = {"gpt": gpt, "resnet": resnet}


def _bytes(*values: object) -> int:
    tensors = [value for value in torch.utils._pytree.tree_leaves(values) if isinstance(value, torch.Tensor)]
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


class Process:
    """One of the two, its stage and its part of the data."""

    def __init__(self, rank: int, case: str, schedule: str, micro_batches: int, fast: bool) -> None:
        from torch.distributed import pipelining

        torch.manual_seed(0)
        parts, inputs, target, self.loss = CASES[case](micro_batches, fast)
        cut = (len(parts) + 1) // 2
        self.rank, self.micro_batches = rank, micro_batches
        self.module = nn.Sequential(*(parts[:cut] if rank == 0 else parts[cut:])).train()
        self.state = [value.detach().clone() for value in (*self.module.parameters(), *self.module.buffers())]
        self.inputs, self.target = (inputs, None) if rank == 0 else (None, target)
        self.example = inputs.tensor_split(micro_batches)[0]
        if rank == 1:
            with torch.no_grad():
                self.example = nn.Sequential(*parts[:cut])(self.example)
            self.example = self.example.detach().requires_grad_()
        self.flight = checkmate.torch.in_flight(schedule, rank, RANKS, micro_batches, outputs=False, losses=False)
        self.make = {"gpipe": pipelining.ScheduleGPipe, "1f1b": pipelining.Schedule1F1B}[schedule]
        self.stage_of = pipelining.PipelineStage

    def plan(self, budget: int | str, seconds: float) -> tuple[nn.Module, Any, str]:
        """The stage within a budget, planned by a micro-batch on its own, so that no process waits for one that finds nothing."""
        said, labels = "", 0 if self.target is None else _bytes(self.target)
        while True:
            module = copy.deepcopy(self.module)
            compiled = checkmate.torch.compile(module, budget, in_flight=self.flight, fixed_bytes=labels, time_limit=seconds, inplace=True)
            try:
                compiled(self.example).sum().backward()
            except checkmate.torch.InfeasibleError as error:
                if said or error.smallest_known is None:
                    raise
                said, budget = f"not {budget:,}", error.smallest_known
                continue
            (plan,) = checkmate.torch.plans(compiled)
            return module, plan, said

    def stepping(self, module: nn.Module, losses: list[torch.Tensor]) -> tuple[Any, Callable[[], None]]:
        """The stage, and a step of the schedule with it."""
        stage = self.stage_of(module, self.rank, RANKS, torch.device("cpu"))
        schedule = self.make(stage, self.micro_batches, self.loss)

        def step() -> None:
            if self.rank == 0:
                schedule.step(self.inputs)
            else:
                schedule.step(target=self.target, losses=losses, return_outputs=False)

        return stage, step

    def run(self, module: nn.Module) -> tuple[int, list[torch.Tensor]]:
        """The peak of a step, and what it gave."""
        losses: list[torch.Tensor] = []
        stage, step = self.stepping(module, losses)

        def reset() -> None:
            stage.clear_runtime_states()
            losses.clear()
            for value, first in zip([*module.parameters(), *module.buffers()], self.state, strict=True):
                value.data.copy_(first)
            for p in module.parameters():
                p.grad = None
            torch.manual_seed(7 + self.rank)

        reset()
        step()  # finds shapes by a micro-batch of its own, and makes buffers
        reset()
        buffers = [info.buffer for infos in (stage.args_recv_info, stage.grad_recv_info) for of in infos.values() for info in of]
        held = _bytes(*module.parameters(), *module.buffers(), self.inputs, self.target, buffers)
        self.buffers = _bytes(buffers)
        taken = physical.allocator_peak(step)
        found = [p.grad.clone() for p in module.parameters()] + [b.clone() for b in module.buffers()] + [v.detach().clone() for v in losses]
        stage.clear_runtime_states()
        return held + taken, found


    def close(self, seconds: float, rounds: int) -> dict[str, Any]:
        """Checkpoints around every block, and the plan for the peak of that, a step each in turn. Times are until both processes are done."""
        theirs = nn.Sequential(*(Checkpointed(part) if isinstance(part, (cases.Layer, cases.Residual)) else part for part in copy.deepcopy(self.module)))
        peak, expected = self.run(theirs)
        ours, plan, said = self.plan(peak, seconds)
        dist.barrier()
        measured, found = self.run(ours)
        ways = {name: self.stepping(module, [])[1] for name, module in
                (("checkpoints", theirs), ("ours", ours), ("plain", copy.deepcopy(self.module)))}  # fmt: skip
        equal = all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        return {"peak": peak, "measured": measured, "overhead": plan.overhead, "note": said, "equal": equal} | compared(take_turns(ways, rounds))


class Checkpointed(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(self.part, x, use_reentrant=False)


def take_turns(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each way in each round, until the last process is done; two rounds before are not timed."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 2):
        for name, step in ways.items():
            dist.barrier()
            begin = time.perf_counter()
            step()
            dist.barrier()
            if turn >= 2:
                times[name].append(time.perf_counter() - begin)
    return times


def compared(times: dict[str, list[float]]) -> dict[str, float]:
    """Medians of "checkpoints" and "ours" over "plain" in the same round, and of ours over checkpoints with quartiles."""
    ratios = sorted(a / b for a, b in zip(times["ours"], times["checkpoints"], strict=True))
    relative = {name: statistics.median(a / b for a, b in zip(times[name], times["plain"], strict=True)) for name in ("checkpoints", "ours")}
    return {"ratio": statistics.median(ratios), "least": ratios[len(ratios) // 4], "most": ratios[3 * len(ratios) // 4],
            "plain": statistics.median(times["plain"]), **relative}  # fmt: skip


def _work(rank: int, port: int, _ranks: int, folder: str, options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    os.environ["XDG_CACHE_HOME"] = folder
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    try:
        with open(pathlib.Path(folder) / f"{rank}.jsonl", "w", encoding="utf-8") as out:
            for case in options.case or CASES:
                for schedule in options.schedule or ("gpipe", "1f1b"):
                    process = Process(rank, case, schedule, options.micro_batches, options.fast)
                    if options.close:
                        row = process.close(options.seconds, options.rounds)
                        out.write(json.dumps({"case": case, "schedule": schedule, "rank": rank} | row) + "\n")
                        out.flush()
                        if rank == 0:
                            print(f"{case} {schedule}: done", file=sys.stderr, flush=True)
                        dist.barrier()
                        continue
                    top, expected = process.run(copy.deepcopy(process.module))
                    common = {"case": case, "schedule": schedule, "rank": rank, "in_flight": int(process.flight), "eager": top}
                    for share in [*options.shares, "least"]:
                        module, plan, said = process.plan("min" if share == "least" else int(share * top), options.seconds)
                        dist.barrier()
                        peak, found = process.run(module)
                        equal = len(found) == len(expected) and all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
                        row = {"share": share, "budget": plan.budget_bytes, "planned": plan.peak_bytes, "measured": peak, "equal": equal,
                               "overhead": plan.overhead, "one": plan.parts.one, "others": plan.parts.others, "saved": plan.parts.saved,
                               "gradients": plan.parts.gradients,
                               "buffers": plan.parts.buffers, "pytorch": process.buffers, "note": said}  # fmt: skip
                        out.write(json.dumps(common | row) + "\n")
                        out.flush()
                        if rank == 0:
                            print(f"{case} {schedule} {share}: done", file=sys.stderr, flush=True)
                        dist.barrier()
    finally:
        dist.destroy_process_group()


#: Title and first lines of the file with the table.
HEAD = """# Pipelines in PyTorch within a budget

Two stages of a network in two processes over gloo, each within shares of what it took without checkmate. Measured is what its allocator
handed out during a step and what it held before. Gradients, losses and running statistics are compared bit for bit with those of the same
pipeline without checkmate. Overheads are planned. More: [docs/DISTRIBUTED.md](../../docs/DISTRIBUTED.md#pipelines-in-pytorch).

"""


CLOSE = """# Pipelines in PyTorch: plans compared with checkpoints around every block

Plans for the peaks that checkpoints around every block have, in the same two processes over gloo. Both, and the pipeline without either, take
turns, a step each; times are until both processes are done, medians of ratios of the same round, quartiles in parentheses. More:
[docs/DISTRIBUTED.md](../../docs/DISTRIBUTED.md#pipelines-in-pytorch).

"""


def close_table(rows: list[dict[str, Any]]) -> str:
    titles = ["network, schedule", "process", "peak of checkpoints, MB", "of the plan, MB", "a step without, ms", "checkpoints over it", "plan over it",
              "predicted", "plan over checkpoints"]  # fmt: skip
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        over = "" if row["measured"] <= row["peak"] else " (above)"
        lines.append(f"| {row['case']}, {row['schedule']} | {row['rank']} | {row['peak'] / 1e6:.2f} | {row['measured'] / 1e6:.2f}{over} | "
                     f"{1e3 * row['plain']:.0f} | {row['checkpoints']:.2f} | {row['ours']:.2f} | {1 + row['overhead']:.2f} | "
                     f"{row['ratio']:.2f} ({row['least']:.2f} to {row['most']:.2f}) |")  # fmt: skip
    return "\n".join(lines) + "\n"


def add_machine(parser: argparse.ArgumentParser) -> None:
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--machine", default=f"{cores} cores ({kept.processor()})", help="what the table says of the machine")


def made(commands: list[str], machine: str) -> str:
    """The line that says where and how the rows were measured."""
    ran = " and ".join(f"`{command}`" for command in commands)
    commit = kept.commit() or "no commit"
    return f"{machine[:1].upper()}{machine[1:]}, PyTorch {torch.__version__}, {commit}, one thread a process, by {ran}.\n\n"


def table(rows: list[dict[str, Any]]) -> str:
    titles = ["network, schedule", "process", "in flight", "without, MB", "budget", "budget, MB", "planned, MB", "measured, MB",
              "the pass + others in flight + gradients + buffers, MB", "overhead", "bit for bit"]  # fmt: skip
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        share = row["share"] if isinstance(row["share"], str) else f"{100 * row['share']:.0f} %"
        share += f", {row['note']}" if row["note"] else ""
        mb = {key: f"{row[key] / 1e6:.2f}" for key in ("eager", "budget", "planned", "measured", "one", "saved", "gradients", "buffers")}
        parts = f"{mb['one']} + {row['others']} x {mb['saved']} + {mb['gradients']} + {mb['buffers']}"
        over = "" if row["measured"] <= row["budget"] else " (above)"
        lines.append(
            f"| {row['case']}, {row['schedule']} | {row['rank']} | {row['in_flight']} | {mb['eager']} | {share} | {mb['budget']} | {mb['planned']} | "
            f"{mb['measured']}{over} | {parts} | {100 * row['overhead']:.1f} % | {'yes' if row['equal'] else 'no'} |"
        )
    held = sum(row["measured"] <= row["budget"] for row in rows)
    return "\n".join([*lines, "", f"{held} of {len(rows)} budgets held; {sum(row['equal'] for row in rows)} of {len(rows)} bit for bit."]) + "\n"


def launch(work: Any, ranks: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows that `ranks` processes write, one file a rank, each by `work(rank, port, ranks, folder, options)`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (port, ranks, folder, options), nprocs=ranks)
        return [json.loads(line) for rank in range(ranks) for line in (pathlib.Path(folder) / f"{rank}.jsonl").read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--schedule", action="append", choices=("gpipe", "1f1b"))
    parser.add_argument("--shares", type=lambda text: [float(share) for share in text.split(",")], default=[1.0, 0.7, 0.5])
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each search; a plan makes up to a dozen")
    parser.add_argument("--close", action="store_true", help="side by side with checkpoints around every block")
    parser.add_argument("--rounds", type=int, default=15, help="steps of each way that are timed")
    parser.add_argument("--fast", action="store_true", help="networks of a few kilobytes")
    parser.add_argument("--records", type=pathlib.Path, help="where to write what was measured, a JSON object a line")
    parser.add_argument("--table", type=pathlib.Path, help="where to write the table, in addition to printing it")
    add_machine(parser)
    options = parser.parse_args()
    rows = launch(_work, RANKS, options)
    rows.sort(key=lambda row: (row["case"], row["schedule"], row["rank"]))
    text = close_table(rows) if options.close else table(rows)
    if options.records is not None:
        options.records.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if options.table is not None:
        command = f"bench/torch/run.sh --pipeline{' --close' if options.close else ''} --seconds {options.seconds:g}"
        options.table.write_text((CLOSE if options.close else HEAD) + made([command], options.machine) + text)
    print(text, end="")
    sys.exit(any(row["measured"] > row["peak" if options.close else "budget"] or not row["equal"] for row in rows))


if __name__ == "__main__":
    main()
