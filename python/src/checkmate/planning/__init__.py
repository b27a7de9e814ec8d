# SPDX-License-Identifier: Apache-2.0
"""What the front doors for PyTorch and for TensorFlow share: budgets as people write them, plans on disk, schedules tidied."""
