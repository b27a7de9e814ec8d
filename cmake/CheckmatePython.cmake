# SPDX-License-Identifier: Apache-2.0
# What the Python wheel contains of this build: the shared library, next to the package's modules and without a version, and the
# program, which finds the library relative to its own path.
set_property(TARGET checkmate_shared PROPERTY VERSION)
set_property(TARGET checkmate_shared PROPERTY SOVERSION)
# From the start, so that the name of the build folder does not get into it.
set_target_properties(checkmate_program PROPERTIES INSTALL_RPATH "$ORIGIN/.." BUILD_WITH_INSTALL_RPATH ON)
install(TARGETS checkmate_shared LIBRARY DESTINATION . COMPONENT python)
install(TARGETS checkmate_program RUNTIME DESTINATION bin COMPONENT python)
