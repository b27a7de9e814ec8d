# SPDX-License-Identifier: Apache-2.0
"""What calls cost in time: estimated, measured, by a device's model, or by the bytes between processes."""
