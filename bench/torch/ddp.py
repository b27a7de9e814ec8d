# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel over gloo, each process within its own budget, gradients accumulated over two batches: bytes and gradients.

ddp.py [--case NAME] [--ranks 2,4] [--shares 1,0.7,0.5] [--seconds N] [--records FILE] [--table FILE] [--machine TEXT] [--fast]

A step is a batch under `no_sync` and one that exchanges. Budgets are shares of what a process took without checkmate, and "least", the
smallest that is found. A process' peak is what its allocator handed out during a step and what it held before: parameters, buffers,
its data and DDP's buckets. Gradients and running statistics of the second of two steps are compared bit for bit with those without
checkmate, and the exchanges of a step are counted.
"""

from __future__ import annotations

import argparse
import copy
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
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import checkmate.torch


class WithLoss(nn.Module):
    def __init__(self, parts: list[nn.Module], loss: Any) -> None:
        super().__init__()
        self.body, self.loss = nn.Sequential(*parts), loss

    def forward(self, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.loss(self.body(inputs), target)


class Process:
    def __init__(self, rank: int, case: str, fast: bool) -> None:
        torch.manual_seed(0)
        parts, *_, loss = pipeline.CASES[case](1, fast)
        self.rank, self.model = rank, WithLoss(parts, loss).train()
        torch.manual_seed(100 + rank)  # other data on every rank
        _parts, inputs, target, _loss = pipeline.CASES[case](2, fast)
        self.batches = list(zip(inputs.tensor_split(2), target.tensor_split(2), strict=True))
        self.data = [inputs, target]

    def run(self, budget: int | str | None, seconds: float) -> dict[str, Any]:
        """The peak of a step, its exchanges and what it gave; the plan of one within a budget."""
        model = copy.deepcopy(self.model)
        # With it, buckets stay as they are made. Else DDP arranges them by the order in which gradients arrive, and gloo's sums of more
        # than two addends depend on where a gradient lies.
        ddp = DistributedDataParallel(model, find_unused_parameters=dist.get_world_size() > 2)
        exchanges: list[int] = []

        def hook(state, bucket):  # type: ignore[no-untyped-def]  # DDP looks at annotations
            exchanges.append(bucket.buffer().nbytes)
            return default_hooks.allreduce_hook(state, bucket)

        ddp.register_comm_hook(None, hook)
        call: Any = ddp
        if budget is not None:
            call = checkmate.torch.compile(ddp, budget, accumulate=True, fixed_bytes=self.waiting_bytes(), time_limit=seconds)

        def step() -> None:
            model.zero_grad(set_to_none=True)
            torch.manual_seed(7 + self.rank)
            with ddp.no_sync():
                call(*self.batches[0]).backward()
            call(*self.batches[1]).backward()

        step()  # after which DDP makes its buckets anew
        step()
        model.zero_grad(set_to_none=True)
        exchanges.clear()
        buckets = sum(p.numel() * p.element_size() for p in model.parameters())
        held = physical.held_bytes(model, self.data) + buckets
        peak = held + physical.allocator_peak(step)
        found = [p.grad.clone() for p in model.parameters()] + [b.clone() for b in model.buffers()]
        made: dict[str, Any] = {"measured": peak, "found": found, "exchanges": list(exchanges)}
        if budget is not None:
            (plan,) = checkmate.torch.plans(call)
            made |= {"budget": plan.budget_bytes, "planned": plan.peak_bytes, "overhead": plan.overhead}
        return made

    def enough(self, budget: int | str, seconds: float) -> tuple[int | str, str]:
        """The budget, or the one that works in every process where it does not in one, and a note. Tried without DDP, in which a process
        that finds nothing would leave the others waiting."""
        model = copy.deepcopy(self.model)
        gradients = sum(p.numel() * p.element_size() for p in model.parameters())
        compiled = checkmate.torch.compile(model, budget, accumulate=True, fixed_bytes=gradients + self.waiting_bytes(), time_limit=seconds)
        works: int | None = 0
        try:
            compiled(*self.batches[0]).backward()
        except checkmate.torch.InfeasibleError as error:
            works = error.smallest_known
        all_work: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(all_work, works)
        return (max(all_work), f"not {budget:,}") if max(all_work) else (budget, "")

    def waiting_bytes(self) -> int:
        """Of the batch that waits; the plan counts the one that it is called with."""
        return sum(value.nbytes for value in self.batches[1])


def _work(rank: int, port: int, ranks: int, folder: str, options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    os.environ["XDG_CACHE_HOME"] = folder
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    try:
        with open(pathlib.Path(folder) / f"{rank}.jsonl", "w", encoding="utf-8") as out:
            for case in options.case or pipeline.CASES:
                process = Process(rank, case, options.fast)
                plain = process.run(None, 0)
                for share in [*options.shares, "least"]:
                    torch._dynamo.reset()
                    budget, note = process.enough("min" if share == "least" else int(share * plain["measured"]), options.seconds)
                    made = process.run(budget, options.seconds)
                    equal = all(torch.equal(a, b) for a, b in zip(made.pop("found"), plain["found"], strict=True))
                    exchanges = [len(made.pop("exchanges")), len(plain["exchanges"])]
                    row = {"case": case, "ranks": ranks, "rank": rank, "share": share, "eager": plain["measured"], "equal": equal, "exchanges": exchanges,
                           "note": note}  # fmt: skip
                    out.write(json.dumps(row | made) + "\n")
                    out.flush()
                    if rank == 0:
                        print(f"{case}, {ranks} processes, {share}: done", file=sys.stderr, flush=True)
                    dist.barrier()
    finally:
        dist.destroy_process_group()


#: Title and first lines of the file with the table.
HEAD = """# DistributedDataParallel within a budget

Steps of two batches, the first under `no_sync`, in processes over gloo, each within shares of what it took without checkmate, and in the
least that is found. Measured is what its allocator handed out during a step and what it held before. Gradients and running statistics are
compared bit for bit with those without checkmate, and exchanges counted. Overheads are planned. More:
[docs/DISTRIBUTED.md](../../docs/DISTRIBUTED.md#distributeddataparallel-with-gradients-that-accumulate).

"""


def table(rows: list[dict[str, Any]]) -> str:
    titles = ["network", "processes", "process", "without, MB", "budget", "budget, MB", "planned, MB", "measured, MB", "overhead", "exchanges, without",
              "bit for bit"]  # fmt: skip
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        share = row["share"] if isinstance(row["share"], str) else f"{100 * row['share']:.0f} %"
        share += f", {row['note']}" if row["note"] else ""
        mb = {key: f"{row[key] / 1e6:.2f}" for key in ("eager", "budget", "planned", "measured")}
        over = "" if row["measured"] <= row["budget"] else " (above)"
        lines.append(f"| {row['case']} | {row['ranks']} | {row['rank']} | {mb['eager']} | {share} | {mb['budget']} | {mb['planned']} | {mb['measured']}{over} | "
                     f"{100 * row['overhead']:.1f} % | {row['exchanges'][0]}, {row['exchanges'][1]} | {'yes' if row['equal'] else 'no'} |")  # fmt: skip
    held, equal = sum(row["measured"] <= row["budget"] for row in rows), sum(row["equal"] for row in rows)
    return "\n".join([*lines, "", f"{held} of {len(rows)} budgets held; {equal} of {len(rows)} bit for bit."]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", action="append", choices=pipeline.CASES)
    parser.add_argument("--ranks", type=lambda text: [int(number) for number in text.split(",")], default=[2, 4])
    parser.add_argument("--shares", type=lambda text: [float(share) for share in text.split(",")], default=[1.0, 0.7, 0.5])
    parser.add_argument("--seconds", type=float, default=2.0, help="of a search")
    parser.add_argument("--fast", action="store_true", help="networks of a few kilobytes")
    parser.add_argument("--records", type=pathlib.Path, help="where to write what was measured, a JSON object a line")
    parser.add_argument("--table", type=pathlib.Path, help="where to write the table, in addition to printing it")
    pipeline.add_machine(parser)
    options = parser.parse_args()
    rows = [row for ranks in options.ranks for row in pipeline.launch(_work, ranks, options)]
    text = table(rows)
    if options.records is not None:
        options.records.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if options.table is not None:
        command = f"bench/torch/run.sh --ddp --ranks {','.join(map(str, options.ranks))} --seconds {options.seconds:g}"
        options.table.write_text(HEAD + pipeline.made([command], options.machine) + text)
    print(text, end="")
    sys.exit(any(row["measured"] > row["budget"] or row["exchanges"][0] != row["exchanges"][1] for row in rows))


if __name__ == "__main__":
    main()
