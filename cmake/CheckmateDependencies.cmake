# SPDX-License-Identifier: Apache-2.0
# Libraries the project builds on. Most are found through pkg-config; scripts/setup.sh installs them on Debian.

find_package(PkgConfig QUIET)
if(NOT PKG_CONFIG_FOUND)
    message(FATAL_ERROR "pkg-config is missing (Debian package pkg-config); scripts/setup.sh installs it")
endif()
find_package(Threads REQUIRED)

# checkmate_find(PREFIX MODULE PACKAGE [IMPORTED_TARGET]): as pkg_check_modules; what is missing is named with its package.
macro(checkmate_find prefix module package)
    pkg_check_modules(${prefix} QUIET ${ARGN} ${module})
    if(NOT ${prefix}_FOUND)
        message(FATAL_ERROR "${module} is missing (Debian package ${package}); scripts/setup.sh installs it")
    endif()
endmacro()

checkmate_find(JANSSON jansson libjansson-dev IMPORTED_TARGET)
checkmate_find(PROTOBUF_C libprotobuf-c libprotobuf-c-dev IMPORTED_TARGET)
# Of CBC and Clp only what holds the C interfaces is linked: their pkg-config files also name every library
# below them, some of which have no development package installed with them.
checkmate_find(CBC cbc coinor-libcbc-dev)
checkmate_find(CLP clp coinor-libclp-dev)
set(engine_include_dirs ${CBC_INCLUDE_DIRS} ${CLP_INCLUDE_DIRS})
set(engine_library_dirs ${CBC_LIBRARY_DIRS} ${CLP_LIBRARY_DIRS})
set(engine_libraries CbcSolver Clp)
# oneDNN computes the heavy kernels. Debian's build runs on GNU OpenMP, whose threads our own kernels share, so the
# OpenMP runtime is linked by name rather than through the compiler's -fopenmp, which for clang is another runtime.
set(run_libraries "")
if(CKM_RUN)
    checkmate_find(PNG libpng libpng-dev IMPORTED_TARGET)
    checkmate_find(JPEG libjpeg libjpeg-dev IMPORTED_TARGET)
    find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h DOC "oneDNN's headers")
    find_library(DNNL_LIBRARY dnnl DOC "oneDNN")
    if(NOT DNNL_INCLUDE_DIR OR NOT DNNL_LIBRARY)
        message(FATAL_ERROR "oneDNN is missing (Debian package libdnnl-dev); scripts/setup.sh installs it")
    endif()
    # Its C interface comes in generations; each has a file that knows it (src/run/cpu/dnnl_generation_*.h).
    file(STRINGS "${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" dnnl_version REGEX "#define DNNL_VERSION_(MAJOR|MINOR) ")
    string(REGEX REPLACE "[^0-9;]" "" dnnl_version "${dnnl_version}")
    string(REPLACE ";" "." dnnl_version "${dnnl_version}")
    if(dnnl_version VERSION_LESS 2.6 OR NOT dnnl_version VERSION_LESS 4)
        message(FATAL_ERROR "oneDNN in ${DNNL_INCLUDE_DIR} is ${dnnl_version}; known here are 2 from 2.6 on, and 3. "
            "Debian's package libdnnl-dev has one of them from Debian 12 on; -DCKM_RUN=OFF plans without it")
    endif()
    set(run_libraries dnnl gomp PkgConfig::PNG PkgConfig::JPEG stdc++)
endif()
# Only the program is linked to MPI: the library gets its transport from its caller (checkmate/ranks.h).
if(CKM_MPI)
    if(NOT CKM_RUN)
        message(FATAL_ERROR "CKM_MPI=ON is for training: it needs CKM_RUN=ON")
    endif()
    find_package(MPI COMPONENTS C)
    if(NOT MPI_C_FOUND)
        message(FATAL_ERROR "MPI is missing (Debian packages libopenmpi-dev, openmpi-bin); scripts/setup.sh mpi installs it")
    endif()
endif()
find_program(PROTOC_C_EXECUTABLE protoc-c DOC "Compiler of protobuf-c")
if(CKM_BUILD_TESTS)
    checkmate_find(CMOCKA cmocka libcmocka-dev IMPORTED_TARGET)
endif()
