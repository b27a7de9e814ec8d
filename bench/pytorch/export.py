# SPDX-License-Identifier: Apache-2.0
"""Writes one of the networks as an ONNX file: export.py NETWORK BATCH FILE"""
import sys

import torch

import networks

name, batch, path = sys.argv[1:]
torch.manual_seed(1)
build, shape, _ = networks.NETWORKS[name]
model = torch.nn.Sequential(*build())
torch.onnx.export(model, (torch.randn(int(batch), *shape),), path, dynamo=False, opset_version=17,
                  training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
