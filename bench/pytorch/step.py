# SPDX-License-Identifier: Apache-2.0
"""Trains one network with PyTorch for some steps and prints times and memory as JSON.

step.py NETWORK BATCH THREADS STEPS {contiguous,channels_last} {plain,checkpoint} [count]

"peak_bytes": what the process grew by, to its largest, since before the network was built. With `count` also
"storage_bytes": the largest sum of the sizes of all tensors' storages alive at one time (parameters, gradients,
optimizer's state, activations, data), counted at every operation. It leaves out what kernels use inside and what the
allocator keeps, so it is less than the process took; counting makes steps slower.
"""
import json
import resource
import sys
import time
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from torch.utils.checkpoint import checkpoint

import networks


class Storages(TorchDispatchMode):
    """The sum of the storages alive, each counted once however many tensors share it."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self.known = set()

    def add(self, value):
        if not isinstance(value, torch.Tensor):
            return
        storage = value.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self.known:
            return
        self.known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self.remove, key, size)

    def remove(self, key, size):
        self.known.discard(key)
        self.now -= size

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        for value in tree_flatten((arguments, keywords, result))[0]:
            self.add(value)
        return result


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def train(blocks, x, labels, steps, mode):
    optimizer = torch.optim.SGD(blocks.parameters(), lr=1e-4, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        h = x
        for block in blocks:
            # The first block's input needs no gradient, which only the newer form of checkpoint allows.
            h = checkpoint(block, h, use_reentrant=False) if mode == "checkpoint" else block(h)
        loss = loss_of(h.flatten(0, -2), labels.flatten())
        del h
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
    return times, loss.item()


def main():
    name, batch, threads, steps, layout, mode = sys.argv[1:7]
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    build, shape, classes = networks.NETWORKS[name]
    # What importing costs is not charged to training, the first use of the kernels is.
    before = resident()
    blocks = torch.nn.ModuleList(build())
    text = name in networks.TEXTS
    x = torch.randint(0, classes, (int(batch), *shape)) if text else torch.randn(int(batch), *shape)
    if layout == "channels_last" and x.dim() == 4:
        blocks = blocks.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, x.shape if text else (int(batch),))
    result = {}
    if sys.argv[7:] == ["count"]:
        with Storages() as storages:
            for parameter in blocks.parameters():
                storages.add(parameter)
            times, loss = train(blocks, x, labels, int(steps), mode)
        result["storage_bytes"] = storages.peak
    else:
        times, loss = train(blocks, x, labels, int(steps), mode)
    result["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    print(json.dumps({"step_seconds": times, "loss": loss, **result}))


main()
