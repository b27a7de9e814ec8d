# SPDX-License-Identifier: Apache-2.0
# The program and the examples: users of the library.

file(GLOB program_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/*.c")
# A program that only plans lacks the commands that run networks, and says so.
if(CKM_RUN)
    list(FILTER program_sources EXCLUDE REGEX "/cli_plans_only\\.c$")
else()
    list(FILTER program_sources EXCLUDE REGEX "/(cmd_(train|profile|run|export)|cli_(weights|train.*|pictures|generate|run_.*|ranks.*|threads|profile|device|openmp|reserve))\\.c$")
endif()
# What connects the processes of a job.
if(CKM_MPI)
    list(FILTER program_sources EXCLUDE REGEX "/cli_ranks_none\\.c$")
else()
    list(FILTER program_sources EXCLUDE REGEX "/cli_ranks_mpi\\.c$")
endif()
set(program_libraries $<$<BOOL:${CKM_MPI}>:MPI::MPI_C> m)
add_executable(checkmate_program ${program_sources})
set_target_properties(checkmate_program PROPERTIES OUTPUT_NAME checkmate)
# Public headers only: src/ is there for the program's own headers, which the include test checks.
target_include_directories(checkmate_program PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_compile_definitions(checkmate_program PRIVATE $<$<NOT:$<BOOL:${CKM_RUN}>>:CLI_PLANS_ONLY>)
# In a wheel or a package, which has the shared library, the program needs no copy of it.
if(CKM_SHARED_PROGRAM OR SKBUILD)
    target_link_libraries(checkmate_program PRIVATE checkmate_flags checkmate_shared Threads::Threads ${program_libraries})
else()
    target_link_libraries(checkmate_program PRIVATE checkmate_flags checkmate_static ${program_libraries})
endif()
add_dependencies(product checkmate_program)

# Manual pages and completions, written from the program's tables by a program that shares them.
file(GLOB page_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/pages/*.c")
set(table_sources ${program_sources})
list(FILTER table_sources EXCLUDE REGEX "/cli_main\\.c$")
add_executable(checkmate_pages ${page_sources} ${table_sources})
target_include_directories(checkmate_pages PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_compile_definitions(checkmate_pages PRIVATE $<$<NOT:$<BOOL:${CKM_RUN}>>:CLI_PLANS_ONLY>)
target_link_libraries(checkmate_pages PRIVATE checkmate_flags checkmate_static ${program_libraries})
set(pages_dir "${PROJECT_BINARY_DIR}/pages")
# The day of the build, or what SOURCE_DATE_EPOCH says.
string(TIMESTAMP pages_date "%Y-%m-%d" UTC)
add_custom_command(
    OUTPUT "${pages_dir}/written"
    COMMAND "${CMAKE_COMMAND}" -E rm -rf "${pages_dir}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${pages_dir}/man" "${pages_dir}/completions"
    COMMAND checkmate_pages "${pages_dir}" "${pages_date}"
    COMMAND "${CMAKE_COMMAND}" -E touch "${pages_dir}/written"
    DEPENDS checkmate_pages
    COMMENT "Writing manual pages and completions"
    VERBATIM)
add_custom_target(pages ALL DEPENDS "${pages_dir}/written")
add_dependencies(product pages)

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
