# SPDX-License-Identifier: Apache-2.0
"""What runs a plan under autograd in every step, and what is looked at in the first one."""
