# SPDX-License-Identifier: Apache-2.0
"""What scripts/mutate.py tries in Python: sample_python.txt says."""


def clipped(x: int, *, low: int = 3, strict: bool = True) -> int:
    # Not a comment's 1 + 1.
    if not strict and x < low:
        raise ValueError(f"{x + 1} is too small")
    while x % 2 == 0:
        x //= 2
    return max(x, low) if x is not None else -1
