# SPDX-License-Identifier: Apache-2.0
"""The networks of the comparison, written for PyTorch with the layers, strides and biases ours have.

Each builder gives a list of blocks: run one after the other they are the network, and torch.utils.checkpoint may be
put around any of them.
"""
import torch
from torch import nn

import zoo_networks


def conv_norm(inside, outside, kernel, stride=1, groups=1, bias=False, relu=nn.ReLU, eps=1.001e-5, pad=None):
    layers = [nn.Conv2d(inside, outside, kernel, stride, kernel // 2 if pad is None else pad, groups=groups, bias=bias),
              nn.BatchNorm2d(outside, eps=eps)]
    return layers + ([relu(inplace=True)] if relu else [])


class Residual(nn.Module):
    def __init__(self, main, shortcut):
        super().__init__()
        self.main = nn.Sequential(*main)
        self.shortcut = nn.Sequential(*shortcut)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.main(x) + self.shortcut(x))


class Head(nn.Module):
    def __init__(self, inside, classes=1000):
        super().__init__()
        self.dense = nn.Linear(inside, classes)

    def forward(self, x):
        return self.dense(x.mean((2, 3)))


def resnet50():
    """As in Keras: the first 1 x 1 of a block has the stride, convolutions have biases."""
    blocks = [nn.Sequential(*conv_norm(3, 64, 7, 2, bias=True), nn.MaxPool2d(3, 2, 1))]
    inside = 64
    for width, count, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            stride = first if i == 0 else 1
            main = (conv_norm(inside, width, 1, stride, bias=True) + conv_norm(width, width, 3, bias=True)
                    + conv_norm(width, 4 * width, 1, bias=True, relu=None))
            shortcut = conv_norm(inside, 4 * width, 1, stride, bias=True, relu=None) if i == 0 else []
            blocks.append(Residual(main, shortcut))
            inside = 4 * width
    return blocks + [Head(inside)]


def resnet18():
    blocks = [nn.Sequential(*conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))]
    inside = 64
    for width, first in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first, 1):
            main = conv_norm(inside, width, 3, stride) + conv_norm(width, width, 3, relu=None)
            changes = stride != 1 or inside != width
            shortcut = conv_norm(inside, width, 1, stride, relu=None) if changes else []
            blocks.append(Residual(main, shortcut))
            inside = width
    return blocks + [Head(inside)]


def mobilenet(classes=1000):
    """As in Keras: a stride of 2 pads below and to the right only. Its dropout, of 1 in 1000, is left out."""
    def part(inside, outside, kernel, stride=1, groups=1):
        strided = [nn.ZeroPad2d((0, 1, 0, 1))] if stride == 2 else []
        return strided + conv_norm(inside, outside, kernel, stride, groups, relu=nn.ReLU6, eps=1e-3,
                                   pad=0 if strided else None)

    blocks = [nn.Sequential(*part(3, 32, 3, 2))]
    inside = 32
    for outside, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1),
                            (512, 1), (512, 1), (1024, 2), (1024, 1)):
        blocks.append(nn.Sequential(*part(inside, inside, 3, stride, inside), *part(inside, outside, 1)))
        inside = outside
    return blocks + [Head(inside, classes)]


def vgg16():
    blocks = []
    inside = 3
    for outside, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        layers = []
        for _ in range(count):
            layers += [nn.Conv2d(inside, outside, 3, 1, 1), nn.ReLU(inplace=True)]
            inside = outside
        blocks.append(nn.Sequential(*layers, nn.MaxPool2d(2, 2)))
    blocks.append(nn.Sequential(nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 4096),
                                nn.ReLU(inplace=True), nn.Linear(4096, 1000)))
    return blocks


class EncoderBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.gelu = nn.GELU()

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = self.split(self.query(h)), self.split(self.key(h)), self.split(self.value(h))
        attention = torch.softmax(torch.matmul(q, k.transpose(2, 3)) * (q.shape[3] ** -0.5), 3)
        mixed = torch.matmul(attention, v).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        return x + self.down(self.gelu(self.up(self.norm2(x))))


class Pool(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.dense = nn.Linear(width, classes)

    def forward(self, x):
        return self.dense(x.mean(1))


def encoder(width=384, heads=6, layers=6, classes=100):
    return [EncoderBlock(width, heads) for _ in range(layers)] + [Pool(width, classes)]


# name: builder, shape of one input without the batch, classes
NETWORKS = {
    "MobileNet": (mobilenet, (3, 224, 224), 1000),
    "ResNet18": (resnet18, (3, 224, 224), 1000),
    "ResNet50": (resnet50, (3, 224, 224), 1000),
    "VGG16": (vgg16, (3, 224, 224), 1000),
    "encoder": (encoder, (128, 384), 100),
}
# Of texts: tokens in, a class a token.
TEXTS = set()
for name, (build, width, depth, heads, vocabulary, length) in zoo_networks.ZOO.items():
    NETWORKS[name] = (lambda b=build, sizes=(width, depth, heads, vocabulary): b(*sizes),
                      (length,) if length else (3, 224, 224), vocabulary or 1000)
    if length:
        TEXTS.add(name)
