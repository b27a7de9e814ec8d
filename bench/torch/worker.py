# SPDX-License-Identifier: Apache-2.0
"""One configuration in a separate process.

worker.py CASE METHOD SETTING THREADS SECONDS

METHOD: eager; checkpoint; selective (the same, but what products and attention give is saved); budget (PyTorch's activation_memory_budget, SETTING 0.1 to 1, with the eager kernels);
decomposed (the same after inductor's decompositions, which is what the backend "aot_eager_decomp_partition" does);
inductor (the same with generated code); hooks (what autograd saves is written to a file: hooks_file.py), checkpoint-hooks (the same of what
checkpoints around every block save); ours, ours-inductor, ours-offload (SETTING is the budget in bytes; the last moves to a file, too). Files are
in the folder of TMPDIR. SECONDS: time limit of our
solver. Prints a JSON line when it is warm, then, for every line "step" on standard input, the seconds of a step: by the clock, and on
the processor. After "threads N" it has N threads, and prints its peak then.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._functorch import config as functorch_config

import hooks_file
import library
import physical
from cases import Case
from checkmate.torch.trace.settings import during_call

WARM = 3


def checkpointed(case: Case) -> None:
    """Every block, by the library's own switch where there is one."""
    from torch.utils.checkpoint import checkpoint

    if hasattr(case.model, "gradient_checkpointing_enable"):
        case.model.gradient_checkpointing_enable()
        return
    for block in case.blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]


#: What takes long to compute again. Attention by the math of its formula is products, too.
_SAVED = ("mm", "addmm", "bmm", "convolution", "_scaled_dot_product")


def selective(case: Case) -> None:
    """Every block, but products, convolutions and attention are saved, as PyTorch's documentation suggests it."""
    from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    def policy(_context: Any, call: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
        name = call._schema.name.removeprefix("aten::")
        saved = name in _SAVED or name.startswith("_scaled_dot_product")
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    for block in case.blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False, context_fn=contexts)  # type: ignore[method-assign]


def budgeted(model: torch.nn.Module, share: float, decompose: bool, found: list[str]) -> Callable[..., Any]:
    """PyTorch's own partition under its budget; both halves run as ours do, so that the schedule is what differs."""
    from checkmate.torch.fx.program import compile_boxed
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.compile_fx import select_decomp_table

    def boxed(graph: torch.fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
        found.append(hashlib.sha256(graph.code.encode()).hexdigest()[:12])
        return compile_boxed(graph)

    functorch_config.activation_memory_budget = share
    partition = functools.partial(min_cut_rematerialization_partition, compiler="inductor")
    table = select_decomp_table if decompose else None
    backend = aot_autograd(fw_compiler=boxed, bw_compiler=boxed, partition_fn=partition, decompositions=table)
    return torch.compile(model, backend=backend, fullgraph=True, dynamic=False)


def main() -> int:
    name, method, setting, threads, seconds = sys.argv[1:6]
    torch.set_num_threads(int(threads))
    logging.captureWarnings(True)
    case = library.make(name)
    case.model.train()
    facts: dict[str, Any] = {}
    halves: list[str] = []
    run: Callable[..., Any] = case.model
    if method in ("checkpoint", "checkpoint-hooks"):
        checkpointed(case)
    elif method == "selective":
        selective(case)
    elif method in ("budget", "decomposed"):
        run = budgeted(case.model, float(setting), method == "decomposed", halves)
    elif method == "inductor":
        functorch_config.activation_memory_budget = float(setting)
        run = torch.compile(case.model, fullgraph=True, dynamic=False)
    elif method.startswith("ours"):
        import checkmate.torch

        compiler = "inductor" if method == "ours-inductor" else "eager"
        moving: dict[str, Any] = {"offload": tempfile.gettempdir()} if method == "ours-offload" else {}
        run = checkmate.torch.compile(case.model, int(setting), compiler=compiler, time_limit=float(seconds), threads=2, **moving)
    if method.endswith("hooks"):
        run = hooks_file.saving(case.model, tempfile.gettempdir())

    def step() -> None:
        run(*case.inputs).backward()

    def clear() -> None:
        case.model.zero_grad(set_to_none=True)

    def first_step() -> bool:
        """Compiles and returns whether that succeeded. If not, reports why."""
        try:
            with during_call():  # logging ends no graph of PyTorch's either
                step()
        except Exception as error:  # noqa: BLE001 - any error becomes the note of the row
            print(json.dumps({"error": f"{type(error).__name__}: {error}".splitlines()[0]}), flush=True)
            return False
        return True

    begin = time.perf_counter()
    if not first_step():
        return 1
    facts["first_seconds"] = time.perf_counter() - begin
    for _ in range(WARM - 1):
        clear()
        step()
    clear()
    held = physical.held_bytes(case.model, case.inputs)
    facts["peak"] = held + physical.allocator_peak(step)
    clear()
    facts["storages"] = held + physical.storage_peak(step) if not method.endswith("inductor") else None
    if method.startswith("ours"):
        (plan,) = checkmate.torch.plans(run)
        facts |= {"predicted": plan.peak_bytes, "overhead": plan.overhead, "gap": plan.gap, "recomputed": len(plan.recomputed),
                  "operators": len(plan.graph.ops), "baseline": plan.baseline_peak_bytes, "plan_seconds": plan.seconds,
                  "moved": plan.moved.out_bytes}  # fmt: skip
    facts["halves"] = " ".join(halves)
    clear()
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        clear()
        if line.startswith("threads"):
            torch.set_num_threads(int(line.split()[1]))
            if not first_step():  # what is compiled is compiled anew
                return 1
            clear()
            held = physical.held_bytes(case.model, case.inputs)
            print(json.dumps({"peak": held + physical.allocator_peak(step)}), flush=True)
            continue
        begin, used = time.perf_counter(), time.process_time()
        step()
        print(json.dumps([time.perf_counter() - begin, time.process_time() - used]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
