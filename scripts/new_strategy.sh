#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Begins a strategy: copies the two skeletons under its name and adds its line to the list. See docs/HOWTO-strategy.md.
#
#   scripts/new_strategy.sh NAME [FOLDER]
#
#   NAME     what --strategy takes: small letters, digits and hyphens
#   FOLDER   write below this folder instead of into the tree, with a copy of the list
set -eu
kind=strategy prefix=solve macro=STRATEGY width=34
list=src/solve/strategies/solve_registry.h
. "$(dirname "$0")/new_in_list.sh"
