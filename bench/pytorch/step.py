# SPDX-License-Identifier: Apache-2.0
"""Trains one network with PyTorch for some steps and prints times and memory as JSON.

step.py NETWORK BATCH THREADS STEPS {contiguous,channels_last} {plain,checkpoint}
"""
import json
import resource
import sys
import time

import torch
from torch.utils.checkpoint import checkpoint

import networks


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def main():
    name, batch, threads, steps, layout, mode = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    build, shape, classes = networks.NETWORKS[name]
    # What importing costs is not charged to training, the first use of the kernels is.
    before = resident()
    blocks = torch.nn.ModuleList(build())
    x = torch.randn(int(batch), *shape)
    if layout == "channels_last" and x.dim() == 4:
        blocks = blocks.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (int(batch),))
    optimizer = torch.optim.SGD(blocks.parameters(), lr=1e-4, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    times = []
    for _ in range(int(steps)):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        h = x
        for block in blocks:
            # The first block's input needs no gradient, which only the newer form of checkpoint allows.
            h = checkpoint(block, h, use_reentrant=False) if mode == "checkpoint" else block(h)
        loss = loss_of(h, labels)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    print(json.dumps({"step_seconds": times, "peak_bytes": peak, "loss": loss.item()}))


main()
