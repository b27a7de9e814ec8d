# SPDX-License-Identifier: Apache-2.0
"""Calls between processes, sharded parameters, and one plan for several processes."""
