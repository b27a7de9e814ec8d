# SPDX-License-Identifier: Apache-2.0
"""What surrounds a trace: PyTorch's settings, outputs, graph breaks, tensors without data, and the time that it takes."""
