# SPDX-License-Identifier: Apache-2.0
"""Bytes: the peak of what runs, and what stands, is in flight, is reserved or measured."""
