# SPDX-License-Identifier: Apache-2.0
"""Weights of a network of the zoo, as `checkmate train --export` writes them, as the state of the PyTorch network.

Ours stand in the order of Keras: convolutions height, width, in, out; dense layers in, out; channels last.
"""
import torch
from safetensors.torch import load_file
from torch import nn


def mobilenet_layers():
    names = ["conv1", "conv1_bn"]
    for i in range(1, 14):
        names += ["conv_dw_%d" % i, "conv_dw_%d_bn" % i, "conv_pw_%d" % i, "conv_pw_%d_bn" % i]
    return names + ["conv_preds"]


def resnet50_layers():
    names = ["conv1_conv", "conv1_bn"]
    for stage, count in ((2, 3), (3, 4), (4, 6), (5, 3)):
        for block in range(1, count + 1):
            for part in (1, 2, 3) + ((0,) if block == 1 else ()):
                names += ["conv%d_block%d_%d_%s" % (stage, block, part, what) for what in ("conv", "bn")]
    return names + ["probs"]


def vgg16_layers():
    convolutions = ["block%d_conv%d" % (block, i)
                    for block, count in enumerate((2, 2, 3, 3, 3), 1) for i in range(1, count + 1)]
    return convolutions + ["fc1", "fc2", "predictions"]


# Our layers with parameters, in the order of the modules of networks.py.
LAYERS = {"MobileNet": mobilenet_layers, "ResNet50": resnet50_layers, "VGG16": vgg16_layers}


def kernel_of(name, kernel, module):
    if isinstance(module, nn.Conv2d):
        return kernel.permute(3, 2, 0, 1)
    kernel = kernel.reshape(kernel.shape[-2], kernel.shape[-1])
    if name == "fc1":  # reads the image flattened: height, width, channels
        kernel = kernel.reshape(7, 7, 512, -1).permute(2, 0, 1, 3).reshape(kernel.shape)
    return kernel.t()


def load(name, blocks, path):
    """Copies the weights of the zoo's network `name` into the blocks."""
    ours = load_file(path)
    modules = [m for m in blocks.modules() if isinstance(m, (nn.Conv2d, nn.BatchNorm2d, nn.Linear))]
    layers = LAYERS[name]()
    if len(modules) != len(layers):
        raise ValueError("%s: %d modules, %d layers" % (name, len(modules), len(layers)))
    used = 0
    with torch.no_grad():
        for module, layer in zip(modules, layers):
            if isinstance(module, nn.BatchNorm2d):
                module.weight.copy_(ours[layer + "/gamma"])
                module.bias.copy_(ours[layer + "/beta"])
                module.running_mean.copy_(ours[layer + "/moving_mean"])
                module.running_var.copy_(ours[layer + "/moving_variance"])
                used += 4
                continue
            module.weight.copy_(kernel_of(layer, ours[layer + "/kernel"], module))
            used += 1
            if module.bias is not None:
                module.bias.copy_(ours[layer + "/bias"])
                used += 1
    if used != len(ours):
        raise ValueError("%s: %d of %d tensors have a place" % (name, used, len(ours)))
