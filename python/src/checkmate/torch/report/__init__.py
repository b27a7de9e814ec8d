# SPDX-License-Identifier: Apache-2.0
"""A step run in other ways, side by side, and the page about a schedule."""
