# SPDX-License-Identifier: Apache-2.0
"""Passes over a traced graph, and models: what eager mode computes, in its bytes and its bits."""
