# SPDX-License-Identifier: Apache-2.0
# What the Python wheel holds of this build: the shared library, beside the package's modules and without a version.
set_property(TARGET checkmate_shared PROPERTY VERSION)
set_property(TARGET checkmate_shared PROPERTY SOVERSION)
install(TARGETS checkmate_shared LIBRARY DESTINATION . COMPONENT python)
