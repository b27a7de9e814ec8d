# SPDX-License-Identifier: Apache-2.0
# Tests of the project itself: include rule, headers, symbols, house rules, manual page, installation,
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

foreach(name includes headers mutate operators setup symbols tree)
    add_test(NAME house_${name} COMMAND sh "${tests_dir}/house/test_${name}.sh")
    set_tests_properties(house_${name} PROPERTIES
        LABELS unit TIMEOUT 300 SKIP_RETURN_CODE 77 ENVIRONMENT "${house_environment}")
endforeach()

if(TARGET checkmate_program)
    add_test(NAME house_manual COMMAND sh "${tests_dir}/house/test_manual.sh")
    set_tests_properties(house_manual PROPERTIES LABELS unit TIMEOUT 60 ENVIRONMENT "${house_environment}")
    add_test(NAME install COMMAND sh "${tests_dir}/install/test_install.sh")
    set_tests_properties(install PROPERTIES
        LABELS install TIMEOUT 600 SKIP_RETURN_CODE 77 ENVIRONMENT "${house_environment}")
endif()

foreach(name ${examples})
    add_test(NAME example_${name} COMMAND example_${name} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
    checkmate_register(example_${name} 300 unit)
    set_tests_properties(example_${name} PROPERTIES FAIL_REGULAR_EXPRESSION "no schedule found")
endforeach()
