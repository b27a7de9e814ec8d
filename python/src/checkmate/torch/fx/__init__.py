# SPDX-License-Identifier: Apache-2.0
"""What the calls of a traced graph do and take, the dataflow graph that they make up, and its two halves."""
