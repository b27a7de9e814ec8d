#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Begins a component of `auto`: copies the two skeletons under its name and adds its line to the list. See docs/HOWTO-strategy.md.
#
#   scripts/new_component.sh NAME [FOLDER]
#
#   NAME     what --without takes: small letters, digits and hyphens
#   FOLDER   write below this folder instead of into the tree, with a copy of the list
set -eu
kind=component prefix=component macro=COMPONENT width=35
list=src/solve/core/component_registry.h
. "$(dirname "$0")/new_in_list.sh"
