# SPDX-License-Identifier: Apache-2.0
# Installation: headers, libraries, program, checkmate.pc, CMake package, manual pages, completions.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/checkmate")

set(installed_headers ${public_headers})
if(NOT CKM_RUN)
    # What the library lacks is not declared either.
    set(training "(run|profile|data|ranks|train|trainer|inference)\\.h")
    list(FILTER installed_headers EXCLUDE REGEX "/(checkmate\\.h|${training})$")
    file(READ "${PROJECT_SOURCE_DIR}/include/checkmate/checkmate.h" whole)
    string(REGEX REPLACE "#include <checkmate/${training}>\n" "" whole "${whole}")
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/planner/checkmate.h" CONTENT "${whole}" @ONLY)
    list(APPEND installed_headers "${PROJECT_BINARY_DIR}/planner/checkmate.h")
endif()
install(FILES ${installed_headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/checkmate")
# Two export sets: only users of the static library need its dependencies.
install(TARGETS checkmate_shared EXPORT checkmate-shared
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" NAMELINK_COMPONENT Development)
install(TARGETS checkmate_static EXPORT checkmate-static ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT checkmate-shared NAMESPACE checkmate:: DESTINATION "${package_dir}")
install(EXPORT checkmate-static NAMESPACE checkmate:: DESTINATION "${package_dir}")
if(TARGET checkmate_program)
    install(TARGETS checkmate_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/checkmate-config.cmake.in"
    "${PROJECT_BINARY_DIR}/checkmate-config.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/checkmate-config-version.cmake"
    VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/checkmate-config.cmake" "${PROJECT_BINARY_DIR}/checkmate-config-version.cmake"
        DESTINATION "${package_dir}")

# The file finds its prefix from where it lies, so that `cmake --install --prefix` needs no new configuration.
# Absolute install directories are kept as they are.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(pc_PREFIX "${CMAKE_INSTALL_PREFIX}")
    set(pc_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
else()
    file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(pc_PREFIX "\${pcfiledir}/${up}")
    set(pc_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(pc_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
else()
    set(pc_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
# What plans only needs no kernels and reads no pictures.
if(CKM_RUN)
    set(pc_RUN_MODULES " libpng libjpeg")
    set(pc_RUN_LIBRARIES " -ldnnl -lgomp")
endif()
configure_file("${CMAKE_CURRENT_LIST_DIR}/checkmate.pc.in" "${PROJECT_BINARY_DIR}/checkmate.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/checkmate.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(TARGET checkmate_program)
    install(DIRECTORY "${pages_dir}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
    # Where bash-completion, zsh and fish look below a prefix.
    install(FILES "${pages_dir}/completions/checkmate" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
    install(FILES "${pages_dir}/completions/_checkmate" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
    install(FILES "${pages_dir}/completions/checkmate.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
endif()
foreach(document LICENSE NOTICE README.md CHANGELOG.md)
    if(EXISTS "${PROJECT_SOURCE_DIR}/${document}")
        install(FILES "${PROJECT_SOURCE_DIR}/${document}" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
    endif()
endforeach()
