# SPDX-License-Identifier: Apache-2.0
# Tests, found by glob. Labels: unit oracle golden cli fuzz slow install quick, and the module of a unit test.
#   tests/unit/<module>/test_*.c, tests/oracle/test_*.c, tests/regression/bug_*.c   cmocka tests, one program a folder;
#                                 each is a test of ctest and runs in a separate process
#   tests/unit/*/test_alloc_*.c   one program, with allocation wrapped (tests/support/alloc_sweep.h)
#   tests/far/                    a back end like a device's, on which tests that train run once more: <name>_far
#   tests/support/*.c             helpers linked into all of them
#   tests/cli/*.sh                scripts that get the program as $CHECKMATE; golden_*.sh are labelled golden
#   tests/faults/                 makes allocations, forks and threads of a program fail one by one (fault_sweep.c)
#   tests/fuzz/fuzz_*.c           fuzz targets; tests/fuzz/corpus/<name>/ is replayed
#   tests/fuzz/support/*.c        what they share: files, mutators
# Exit status 77 means skipped.

set(tests_dir "${PROJECT_SOURCE_DIR}/tests")
set(shared_data_dir "${PROJECT_SOURCE_DIR}/../shared/data")
cmake_path(NORMAL_PATH shared_data_dir)
set(test_environment "CKM_SHARED_DATA_DIR=${shared_data_dir}" "CKM_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
    "CKM_BINARY_DIR=${PROJECT_BINARY_DIR}" "CHECKMATE=${PROJECT_BINARY_DIR}/checkmate"
    # Threads that wait by spinning would take the processors from other tests.
    "GOMP_SPINCOUNT=1000")

add_library(checkmate_test_flags INTERFACE)
target_include_directories(checkmate_test_flags INTERFACE
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${tests_dir}/support")
target_include_directories(checkmate_test_flags SYSTEM INTERFACE "${generated_dir}" ${engine_include_dirs})
target_compile_definitions(checkmate_test_flags INTERFACE
    "CKM_SHARED_DATA_DIR=\"${shared_data_dir}\"" "CKM_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\""
    "CKM_BINARY_DIR=\"${PROJECT_BINARY_DIR}\""
    # cmocka 2 wants new names for assert_in_range and its like, which cmocka 1.1 does not have.
    CMOCKA_DISABLE_DEPRECATION_WARNINGS)
target_link_libraries(checkmate_test_flags INTERFACE checkmate_flags checkmate_static ${library_dependencies})

# Those that take half a minute or more under sanitizers, for the size of what they solve and not for what they call.
set(slow_tests bug_many_nodes_take_long bug_large_chain test_neighbourhood test_solve_stage_bound)

# Those that take more than a second anywhere.
set(longer_file "${tests_dir}/longer.txt")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${longer_file}")
file(STRINGS "${longer_file}" longer_tests REGEX "^[^#]")

# Registers a test; `labels` is a list.
function(checkmate_register name timeout labels)
    if(name IN_LIST slow_tests)
        list(APPEND labels slow)
    endif()
    if(NOT name IN_LIST longer_tests)
        list(APPEND labels quick)
    endif()
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout} SKIP_RETURN_CODE 77
                         ENVIRONMENT "${test_environment}")
endfunction()

if(CKM_BUILD_TESTS)
    target_link_libraries(checkmate_test_flags INTERFACE PkgConfig::CMOCKA)

    file(GLOB support_sources CONFIGURE_DEPENDS "${tests_dir}/support/*.c")
    list(FILTER support_sources EXCLUDE REGEX "/alloc_sweep\\.c$")
    if(support_sources)
        add_library(checkmate_test_support STATIC ${support_sources})
        target_link_libraries(checkmate_test_support PUBLIC checkmate_test_flags)
    else()
        add_library(checkmate_test_support INTERFACE)
        target_link_libraries(checkmate_test_support INTERFACE checkmate_test_flags)
    endif()

    # A test with a program to itself.
    function(checkmate_add_c_test source label)
        cmake_path(GET source STEM name)
        add_executable(${name} "${source}")
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
        target_link_libraries(${name} PRIVATE checkmate_test_support)
        add_test(NAME ${name} COMMAND ${name})
        checkmate_register(${name} 600 "${label}")
    endfunction()

    # checkmate_add_test_program(PROGRAM SUFFIX SOURCE...): one program of these tests, NAME<SUFFIX> each. It is called by links with
    # the tests' names, and building NAME<SUFFIX> builds it. tests/programs.txt says for scripts which test is in which program.
    set(programs_file "${PROJECT_BINARY_DIR}/tests/programs.txt")
    file(WRITE "${programs_file}" "")
    function(checkmate_add_test_program program suffix)
        set(declarations "")
        set(rows "")
        foreach(source ${ARGN})
            cmake_path(GET source STEM name)
            string(APPEND declarations "int ${name}(void);\n")
            string(APPEND rows "        {\"${name}${suffix}\", ${name}},\n")
            set_source_files_properties("${source}" PROPERTIES COMPILE_DEFINITIONS "main=${name}"
                                        COMPILE_OPTIONS "-include;${tests_dir}/support/test_main.h")
            file(CREATE_LINK ${program} "${PROJECT_BINARY_DIR}/tests/${name}${suffix}" SYMBOLIC)
            file(APPEND "${programs_file}" "${name}${suffix} ${program}\n")
        endforeach()
        configure_file("${tests_dir}/support/test_program.c.in" "${PROJECT_BINARY_DIR}/test_programs/${program}.c" @ONLY)
        add_executable(${program} ${ARGN} "${PROJECT_BINARY_DIR}/test_programs/${program}.c")
        set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
        target_link_libraries(${program} PRIVATE checkmate_test_support)
        foreach(source ${ARGN})
            cmake_path(GET source STEM name)
            add_custom_target(${name}${suffix} DEPENDS ${program})
        endforeach()
    endfunction()

    file(GLOB unit_tests CONFIGURE_DEPENDS "${tests_dir}/unit/*/test_*.c" "${tests_dir}/regression/bug_*.c")
    file(GLOB oracle_tests CONFIGURE_DEPENDS "${tests_dir}/oracle/test_*.c")

    # Those that stand for functions of the library, of an engine or of the C library, or that begin anew as another process.
    set(tests_alone bug_engine_claims bug_product_heap test_failing_backend test_step_allocates test_cpu_waiting test_solver_time)

    # What depends on the level of the processor, at each below the highest that this machine has. oneDNN and products of
    # our own read the level from the environment. Loops of which the best version is chosen when the program starts
    # (CKM_I_CPU_CLONES) are compiled once more for a lower level, and these objects come before the library's; of such
    # loops processors with AVX alone have the first version, too. Under sanitizers there is only that one.
    set(loops_of_SSE41 default)
    set(loops_of_AVX default)
    set(loops_of_AVX2 x86-64-v3)
    set(loop_levels "")
    if(CKM_RUN AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT CKM_SANITIZE AND NOT CKM_COVERAGE)
        set(loop_levels default x86-64-v3)
        set(loop_sources "")
        foreach(source ${library_sources})
            file(STRINGS "${source}" uses REGEX "^(static )?.*CKM_I_CPU_CLONES" LIMIT_COUNT 1)
            if(uses MATCHES "CKM_I_CPU_CLONES" AND source MATCHES "\\.c$")
                list(APPEND loop_sources "${source}")
            endif()
        endforeach()
        foreach(level ${loop_levels})
            add_library(checkmate_loops_${level} OBJECT ${loop_sources} "${tests_dir}/levels/level_guard.c")
            target_include_directories(checkmate_loops_${level} PRIVATE $<TARGET_PROPERTY:checkmate_objects,INCLUDE_DIRECTORIES>)
            target_compile_options(checkmate_loops_${level} PRIVATE $<TARGET_PROPERTY:checkmate_objects,COMPILE_OPTIONS>)
            target_link_libraries(checkmate_loops_${level} PRIVATE checkmate_flags)
        endforeach()
        target_compile_definitions(checkmate_loops_default PRIVATE CKM_I_CPU_NO_CLONES)
        target_compile_definitions(checkmate_loops_x86-64-v3 PRIVATE CKM_I_CPU_ONE_LEVEL="arch=x86-64-v3")
    endif()
    # checkmate_at_levels(NAME [LOOPS])
    function(checkmate_at_levels name)
        foreach(level SSE41 AVX AVX2)
            set(program ${name})
            if("LOOPS" IN_LIST ARGN AND loop_levels)
                set(program ${name}_${loops_of_${level}})
            endif()
            add_test(NAME ${name}_${level} COMMAND "${PROJECT_BINARY_DIR}/tests/${program}")
            checkmate_register(${name}_${level} 600 unit)
            set_property(TEST ${name}_${level} APPEND PROPERTY ENVIRONMENT "DNNL_MAX_CPU_ISA=${level}")
        endforeach()
    endfunction()

    set(modules "")
    foreach(source ${unit_tests})
        cmake_path(GET source PARENT_PATH folder)
        cmake_path(GET folder FILENAME module)
        cmake_path(GET source STEM name)
        if(name IN_LIST tests_alone)
            checkmate_add_c_test("${source}" "unit;${module}")
            continue()
        endif()
        set(program unit_${module})
        if(name MATCHES "^test_alloc_")
            set(program unit_alloc)
        endif()
        list(APPEND modules ${program})
        list(APPEND tests_of_${program} "${source}")
        add_test(NAME ${name} COMMAND "${PROJECT_BINARY_DIR}/tests/${name}")
        checkmate_register(${name} 600 "unit;${module}")
    endforeach()
    list(REMOVE_DUPLICATES modules)
    foreach(program ${modules})
        checkmate_add_test_program(${program} "" ${tests_of_${program}})
    endforeach()
    target_sources(unit_alloc PRIVATE "${tests_dir}/support/alloc_sweep.c")
    target_link_options(unit_alloc PRIVATE
        "LINKER:--wrap=malloc" "LINKER:--wrap=calloc" "LINKER:--wrap=realloc" "LINKER:--wrap=free")
    if(CKM_RUN)
        foreach(level ${loop_levels})
            checkmate_add_test_program(unit_loops_${level} _${level}
                "${tests_dir}/unit/run/test_dnnl_kernels.c" "${tests_dir}/unit/ops/test_op_formulas.c"
                "${tests_dir}/unit/ops/test_op_line_formulas.c" "${tests_dir}/unit/run/test_attention.c")
            target_sources(unit_loops_${level} PRIVATE $<TARGET_OBJECTS:checkmate_loops_${level}>)
        endforeach()
        checkmate_at_levels(test_gemm)
        checkmate_at_levels(test_dnnl_conv)
        checkmate_at_levels(test_dnnl_kernels LOOPS)
        checkmate_at_levels(test_op_formulas LOOPS)
        checkmate_at_levels(test_op_line_formulas LOOPS)
        checkmate_at_levels(test_attention LOOPS)
    endif()
    # The tests that train, once more on a back end whose memory is not the host's and whose work is done late; and a
    # program that trains on it. The objects come before the library, whose back ends they wrap.
    if(CKM_RUN)
        add_library(checkmate_far_backend OBJECT "${tests_dir}/far/far_backend.c" "${PROJECT_SOURCE_DIR}/src/run/backend/backend.c")
        target_compile_definitions(checkmate_far_backend PRIVATE CKM_BACKEND_WRAP=ckm_test_far_wrap)
        target_link_libraries(checkmate_far_backend PRIVATE checkmate_test_flags)
        set(far_tests "")
        foreach(source ${unit_tests})
            cmake_path(GET source STEM name)
            if(name MATCHES "^test_(session|networks|optimizer|profile|trainer|autodiff_numeric)$")
                list(APPEND far_tests "${source}")
                add_test(NAME ${name}_far COMMAND "${PROJECT_BINARY_DIR}/tests/${name}_far")
                checkmate_register(${name}_far 600 unit)
            endif()
        endforeach()
        checkmate_add_test_program(unit_far _far ${far_tests})
        target_sources(unit_far PRIVATE $<TARGET_OBJECTS:checkmate_far_backend>)
        target_compile_definitions(unit_far PRIVATE CKM_BACKEND_WRAP=ckm_test_far_wrap)
        checkmate_add_c_test("${tests_dir}/far/test_far_memory.c" unit)
        target_sources(test_far_memory PRIVATE $<TARGET_OBJECTS:checkmate_far_backend>)
        add_executable(checkmate_far ${program_sources} $<TARGET_OBJECTS:checkmate_far_backend>)
        set_target_properties(checkmate_far PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
        target_link_libraries(checkmate_far PRIVATE checkmate_test_flags ${program_libraries})
        foreach(script train_resume train_errors train_networks)
            add_test(NAME cli_${script}_far COMMAND sh "${tests_dir}/cli/${script}.sh")
            checkmate_register(cli_${script}_far 600 cli)
            set_property(TEST cli_${script}_far APPEND PROPERTY ENVIRONMENT
                         "CHECKMATE=${PROJECT_BINARY_DIR}/tests/checkmate_far")
        endforeach()
    endif()
    checkmate_add_test_program(oracle "" ${oracle_tests})
    foreach(source ${oracle_tests})
        cmake_path(GET source STEM name)
        add_test(NAME ${name} COMMAND "${PROJECT_BINARY_DIR}/tests/${name}")
        checkmate_register(${name} 600 oracle)
    endforeach()

    # Sanitizers bring an allocator of their own, and coverage allocates when the program ends.
    if(NOT CKM_SANITIZE AND NOT CKM_COVERAGE)
        foreach(preload fault_preload excess_preload busy_preload disk_preload)
            add_library(${preload} MODULE "${tests_dir}/faults/${preload}.c")
            set_target_properties(${preload} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
            target_link_libraries(${preload} PRIVATE checkmate_flags gcc_s ${CMAKE_DL_LIBS})
        endforeach()
        add_executable(fault_sweep "${tests_dir}/faults/fault_sweep.c")
        set_target_properties(fault_sweep PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
        target_link_libraries(fault_sweep PRIVATE checkmate_flags)
        add_executable(api_tour "${tests_dir}/faults/api_tour.c")
        set_target_properties(api_tour PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
        target_link_libraries(api_tour PRIVATE checkmate_test_support)
        list(APPEND test_environment "CKM_FAULT_SWEEP=${PROJECT_BINARY_DIR}/tests/fault_sweep"
             "CKM_API_TOUR=${PROJECT_BINARY_DIR}/tests/api_tour"
             "CKM_FAULT_PRELOAD=${PROJECT_BINARY_DIR}/tests/fault_preload.so"
             "CKM_EXCESS_PRELOAD=${PROJECT_BINARY_DIR}/tests/excess_preload.so"
             "CKM_BUSY_PRELOAD=${PROJECT_BINARY_DIR}/tests/busy_preload.so"
             "CKM_DISK_PRELOAD=${PROJECT_BINARY_DIR}/tests/disk_preload.so")
    endif()

    if(TARGET checkmate_program)
        file(GLOB cli_tests CONFIGURE_DEPENDS "${tests_dir}/cli/*.sh" "${tests_dir}/golden/*.sh")
        foreach(script ${cli_tests})
            cmake_path(GET script STEM name)
            # Files to be sourced by tests are not tests.
            if(name MATCHES "^(_|lib|common)")
                continue()
            endif()
            set(label cli)
            if(name MATCHES "^golden" OR script MATCHES "/golden/")
                list(APPEND label golden)
            endif()
            add_test(NAME cli_${name} COMMAND sh "${script}")
            checkmate_register(cli_${name} 600 "${label}")
        endforeach()
    endif()
endif()

# Fuzz targets: libFuzzer programs with CKM_FUZZ, and in any build a replay of their corpus.
file(GLOB fuzz_sources CONFIGURE_DEPENDS "${tests_dir}/fuzz/fuzz_*.c")
file(GLOB fuzz_support CONFIGURE_DEPENDS "${tests_dir}/fuzz/support/*.c" "${tests_dir}/support/onnx_*.c")
add_library(checkmate_fuzz_support STATIC ${fuzz_support})
target_include_directories(checkmate_fuzz_support PUBLIC "${tests_dir}/fuzz")
target_link_libraries(checkmate_fuzz_support PUBLIC checkmate_test_flags)
foreach(source ${fuzz_sources})
    cmake_path(GET source STEM name)
    string(REGEX REPLACE "^fuzz_" "" corpus "${name}")
    add_executable(${name} "${source}")
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
    target_link_libraries(${name} PRIVATE checkmate_fuzz_support)
    if(CKM_FUZZ)
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        add_test(NAME replay_${name} COMMAND ${name} -runs=0 "${tests_dir}/fuzz/corpus/${corpus}")
    else()
        target_sources(${name} PRIVATE "${tests_dir}/fuzz/replay_main.c")
        add_test(NAME replay_${name} COMMAND ${name} "${tests_dir}/fuzz/corpus/${corpus}")
    endif()
    checkmate_register(replay_${name} 300 fuzz)
endforeach()

include(CheckmateHouseTests OPTIONAL)
