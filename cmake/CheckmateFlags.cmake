# SPDX-License-Identifier: Apache-2.0
# Compiler flags of everything in this project, as the interface target checkmate_flags.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(checkmate_flags INTERFACE)
target_compile_definitions(checkmate_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C>:_POSIX_C_SOURCE=200809L>)
target_compile_options(checkmate_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wvla -Wformat=2 -Wundef
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
    $<$<BOOL:${CKM_WERROR}>:-Werror>)

# For generated sources: the same language, no opinion on their style.
add_library(checkmate_flags_generated INTERFACE)
target_compile_options(checkmate_flags_generated INTERFACE -w)

if(CKM_SANITIZE)
    # A report ends the program, so a test that provokes one fails.
    add_compile_options(-fsanitize=${CKM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
    add_link_options(-fsanitize=${CKM_SANITIZE})
endif()
if(CKM_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "CKM_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang, or clang-14 and the like")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(CKM_COVERAGE)
    add_compile_options(--coverage)
    add_link_options(--coverage)
endif()
