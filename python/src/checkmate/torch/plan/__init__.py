# SPDX-License-Identifier: Apache-2.0
"""One joint graph planned: rewritten and costed, solved, split, and checked against what will run."""
