# SPDX-License-Identifier: Apache-2.0
# Tests of the project itself: include rule, headers, symbols, house rules, manual pages, completion, installation,
# examples.

if(NOT CKM_BUILD_TESTS)
    return()
endif()

find_program(CXX_FOR_HEADERS NAMES c++ g++ clang++-14 clang++ DOC "C++ compiler that checks the public headers")
if(CXX_FOR_HEADERS)
    set(cxx_for_headers "${CXX_FOR_HEADERS}")
else()
    set(cxx_for_headers "c++")
endif()
set(house_environment ${test_environment} "CKM_CC=${CMAKE_C_COMPILER}" "CKM_CXX=${cxx_for_headers}")
if(CKM_SANITIZE OR CKM_COVERAGE)
    list(APPEND house_environment "CKM_INSTRUMENTED=1")
endif()

# All there are, but those that need the program.
file(GLOB house_scripts CONFIGURE_DEPENDS "${tests_dir}/house/test_*.sh")
list(FILTER house_scripts EXCLUDE REGEX "/test_(manual|completion)\\.sh$")
foreach(script IN LISTS house_scripts)
    string(REGEX REPLACE ".*/test_(.*)\\.sh$" "\\1" name "${script}")
    add_test(NAME house_${name} COMMAND sh "${tests_dir}/house/test_${name}.sh")
    checkmate_register(house_${name} 300 "unit;house")
    set_property(TEST house_${name} PROPERTY ENVIRONMENT "${house_environment}")
endforeach()

# The skeletons of a strategy and of a component, and of their tests, under a new name, built like any other. The list with the new line
# comes before the tree's, and what the program knows of strategies or components is taken from it.
# TARGET is the test; KIND names the script; PREFIX the files; FOLDER has the list, LIST.h, and what reads it, READER.c.
function(checkmate_solver_sample TARGET KIND PREFIX FOLDER LIST READER)
    set(sample "${PROJECT_BINARY_DIR}/sample_${KIND}")
    set(folder "${PROJECT_SOURCE_DIR}/src/solve/${FOLDER}")
    set(source "${sample}/src/solve/strategies/${PREFIX}_house_sample.c")
    set(test "${sample}/tests/unit/solve/test_${PREFIX}_house_sample.c")
    add_custom_command(
        OUTPUT "${test}" "${source}"
        COMMAND sh "${PROJECT_SOURCE_DIR}/scripts/new_${KIND}.sh" house-sample "${sample}"
        DEPENDS "${PROJECT_SOURCE_DIR}/scripts/new_${KIND}.sh" "${PROJECT_SOURCE_DIR}/scripts/new_in_list.sh"
                "${PROJECT_SOURCE_DIR}/src/solve/strategies/${PREFIX}_template.c.in" "${folder}/${LIST}.h"
                "${tests_dir}/unit/solve/test_${PREFIX}_template.c.in"
        COMMENT "Copying the skeletons of a ${KIND}"
        VERBATIM)
    add_executable(${TARGET} "${test}" "${source}" "${folder}/${READER}.c")
    set_target_properties(${TARGET} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    target_include_directories(${TARGET} BEFORE PRIVATE "${sample}/src")
    target_link_libraries(${TARGET} PRIVATE checkmate_test_support)
    add_test(NAME ${TARGET} COMMAND ${TARGET})
    checkmate_register(${TARGET} 600 unit)
endfunction()
checkmate_solver_sample(test_solve_house_sample strategy solve strategies solve_registry solve_registry)
checkmate_solver_sample(test_component_house_sample component component core component_registry component)

# The same of a back end.
if(CKM_RUN)
    set(sample "${PROJECT_BINARY_DIR}/sample_backend")
    set(backend_dir "${PROJECT_SOURCE_DIR}/src/run/backend")
    set(sample_test "${sample}/tests/unit/run/test_backend_house_sample.c")
    add_custom_command(
        OUTPUT "${sample_test}" "${sample}/src/run/house_sample/house_sample_backend.c"
        COMMAND sh "${PROJECT_SOURCE_DIR}/scripts/new_backend.sh" house_sample "${sample}"
        DEPENDS "${PROJECT_SOURCE_DIR}/scripts/new_backend.sh" "${backend_dir}/backend_skeleton.c.in"
                "${backend_dir}/backend_list.h" "${tests_dir}/unit/run/test_backend_skeleton.c.in"
        COMMENT "Copying the skeletons of a back end"
        VERBATIM)
    add_executable(test_backend_house_sample "${sample_test}" "${sample}/src/run/house_sample/house_sample_backend.c"
        "${backend_dir}/backend.c")
    set_target_properties(test_backend_house_sample PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    target_include_directories(test_backend_house_sample BEFORE PRIVATE "${sample}/src")
    target_link_libraries(test_backend_house_sample PRIVATE checkmate_test_support)
    add_test(NAME test_backend_house_sample COMMAND test_backend_house_sample)
    checkmate_register(test_backend_house_sample 600 unit)
endif()

if(TARGET checkmate_program)
    foreach(name manual completion)
        add_test(NAME house_${name} COMMAND sh "${tests_dir}/house/test_${name}.sh")
        checkmate_register(house_${name} 300 "unit;house")
        set_property(TEST house_${name} PROPERTY ENVIRONMENT "${house_environment}")
    endforeach()
    foreach(name install dist)
        add_test(NAME ${name} COMMAND sh "${tests_dir}/install/test_${name}.sh")
        set_tests_properties(${name} PROPERTIES
            LABELS install TIMEOUT 900 SKIP_RETURN_CODE 77 ENVIRONMENT "${house_environment}")
    endforeach()
endif()

foreach(name ${examples})
    add_test(NAME example_${name} COMMAND example_${name} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
    checkmate_register(example_${name} 300 unit)
    set_tests_properties(example_${name} PROPERTIES FAIL_REGULAR_EXPRESSION "no schedule found")
endforeach()
