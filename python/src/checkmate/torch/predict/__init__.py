# SPDX-License-Identifier: Apache-2.0
"""A step that is traced and not run: what a budget would cost, also on a device that you do not have."""
