# SPDX-License-Identifier: Apache-2.0
"""A second memory, to which tensors of a step are moved while it runs, and the calls of a graph that move them. Knows no schedules."""
