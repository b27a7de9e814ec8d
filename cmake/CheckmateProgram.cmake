# SPDX-License-Identifier: Apache-2.0
# The program and the examples: users of the library.

file(GLOB program_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/*.c")
# A program that only plans lacks the commands that run networks, and says so.
if(CKM_RUN)
    list(FILTER program_sources EXCLUDE REGEX "/cli_plans_only\\.c$")
else()
    list(FILTER program_sources EXCLUDE REGEX "/(cmd_(train|profile)|cli_(train.*|threads|profile|device|openmp|reserve))\\.c$")
endif()
add_executable(checkmate_program ${program_sources})
set_target_properties(checkmate_program PROPERTIES OUTPUT_NAME checkmate)
# Public headers only: src/ is there for the program's own headers, which the include test checks.
target_include_directories(checkmate_program PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_compile_definitions(checkmate_program PRIVATE $<$<NOT:$<BOOL:${CKM_RUN}>>:CLI_PLANS_ONLY>)
# Beside the shared library in a wheel, the program needs no copy of it.
target_link_libraries(checkmate_program PRIVATE checkmate_flags $<IF:$<BOOL:${SKBUILD}>,checkmate_shared,checkmate_static> m)
add_dependencies(product checkmate_program)

# Examples are users of the library: public headers only. `make demo` runs one, the tests run all.
if(NOT CKM_RUN)
    return()
endif()
file(GLOB example_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.c")
set(examples "")
add_custom_target(examples)
foreach(source ${example_sources})
    cmake_path(GET source STEM name)
    list(APPEND examples ${name})
    add_executable(example_${name} "${source}")
    set_target_properties(example_${name} PROPERTIES
        OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
    target_link_libraries(example_${name} PRIVATE checkmate_flags checkmate_static m)
    add_dependencies(examples example_${name})
endforeach()

# A maker of training images for the demo and the README: a program of its own, not a user of the library.
add_executable(make_digits "${PROJECT_SOURCE_DIR}/examples/data/make_digits.c")
set_target_properties(make_digits PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
target_link_libraries(make_digits PRIVATE checkmate_flags PkgConfig::PNG m)
add_dependencies(examples make_digits)
