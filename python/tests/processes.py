# SPDX-License-Identifier: Apache-2.0
"""Functions run by several processes of a job over gloo."""

from __future__ import annotations

import json
import os
import pathlib
import socket
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


def _work(rank: int, ranks: int, port: int, folder: str, function: Callable[..., Any], argument: str) -> None:
    torch.set_num_threads(1)
    # The store is in neither of the processes that die, as with torchrun.
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    result = function(rank, argument) if argument else function(rank)
    pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(result))
    if not argument:
        dist.barrier()
        dist.destroy_process_group()
    os._exit(0)  # gloo's threads may wait for a process that is gone


def run(folder: pathlib.Path, function: Callable[..., Any], ranks: int = 2, argument: str = "") -> list[Any]:
    """What `function(rank)` gives in each process, by rank; or `function(rank, argument)`, which may end processes: of those that are left."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    torch.multiprocessing.spawn(_work, (ranks, port, str(folder), function, argument), nprocs=ranks)
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
