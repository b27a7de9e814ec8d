# SPDX-License-Identifier: Apache-2.0
# Libraries the project builds on. All are found through pkg-config; scripts/setup.sh installs them on Debian.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(CBC REQUIRED IMPORTED_TARGET cbc)
pkg_check_modules(CLP REQUIRED IMPORTED_TARGET clp)
find_program(PROTOC_C_EXECUTABLE protoc-c DOC "Compiler of protobuf-c")
if(CKM_BUILD_TESTS)
    pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif()
