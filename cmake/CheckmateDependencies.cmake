# SPDX-License-Identifier: Apache-2.0
# Libraries the project builds on. Most are found through pkg-config; scripts/setup.sh installs them on Debian.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
# Of CBC and Clp only what holds the C interfaces is linked: their pkg-config files also name every library
# below them, some of which have no development package installed with them.
pkg_check_modules(CBC REQUIRED cbc)
pkg_check_modules(CLP REQUIRED clp)
set(engine_include_dirs ${CBC_INCLUDE_DIRS} ${CLP_INCLUDE_DIRS})
set(engine_library_dirs ${CBC_LIBRARY_DIRS} ${CLP_LIBRARY_DIRS})
set(engine_libraries CbcSolver Clp)
# oneDNN computes the heavy kernels. Debian's build runs on GNU OpenMP, whose threads our own kernels share, so the
# OpenMP runtime is linked by name rather than through the compiler's -fopenmp, which for clang is another runtime.
set(run_libraries "")
if(CKM_RUN)
    pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
    pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
    find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h DOC "oneDNN's headers")
    find_library(DNNL_LIBRARY dnnl DOC "oneDNN")
    if(NOT DNNL_INCLUDE_DIR OR NOT DNNL_LIBRARY)
        message(FATAL_ERROR "oneDNN is missing (Debian package libdnnl-dev); scripts/setup.sh installs it")
    endif()
    set(run_libraries dnnl gomp PkgConfig::PNG PkgConfig::JPEG stdc++)
endif()
# Only the program is linked to MPI: the library is given a transport by whoever uses it (checkmate/ranks.h).
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
    pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif()
