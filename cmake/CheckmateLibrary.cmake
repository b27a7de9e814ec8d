# SPDX-License-Identifier: Apache-2.0
# The library, compiled once and packed twice.

file(GLOB library_sources CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/src/*/*.c" "${PROJECT_SOURCE_DIR}/src/*/*/*.c" "${PROJECT_SOURCE_DIR}/src/*/*/*.cpp")
list(FILTER library_sources EXCLUDE REGEX "/src/cli/")
if(NOT CKM_RUN)
    list(FILTER library_sources EXCLUDE REGEX "/src/(run/|trainer/|ops/[a-z]+/(ref|cpu|dnnl)_)")
endif()
file(GLOB public_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/checkmate/*.h")

set(library_dependencies PkgConfig::JANSSON PkgConfig::PROTOBUF_C ${engine_libraries} ${run_libraries}
    Threads::Threads m)

# The ONNX reader's message classes, generated from the schema next to it.
set(generated_dir "${PROJECT_BINARY_DIR}/generated")
set(generated_objects "")
file(GLOB onnx_schema CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/import/onnx.proto")
if(onnx_schema)
    if(NOT PROTOC_C_EXECUTABLE)
        message(FATAL_ERROR "protoc-c is missing (Debian package protobuf-c-compiler); scripts/setup.sh installs it")
    endif()
    file(MAKE_DIRECTORY "${generated_dir}")
    add_custom_command(
        OUTPUT "${generated_dir}/onnx.pb-c.c" "${generated_dir}/onnx.pb-c.h"
        COMMAND "${PROTOC_C_EXECUTABLE}" "--c_out=${generated_dir}" "--proto_path=${PROJECT_SOURCE_DIR}/src/import"
                "${onnx_schema}"
        DEPENDS "${onnx_schema}"
        COMMENT "Generating onnx.pb-c.c"
        VERBATIM)
    add_custom_target(checkmate_generate DEPENDS "${generated_dir}/onnx.pb-c.h")
    add_library(checkmate_generated OBJECT "${generated_dir}/onnx.pb-c.c")
    set_target_properties(checkmate_generated PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
    target_link_libraries(checkmate_generated PRIVATE checkmate_flags_generated PkgConfig::PROTOBUF_C)
    add_dependencies(checkmate_generated checkmate_generate)
    set(generated_objects "$<TARGET_OBJECTS:checkmate_generated>")
endif()

include(CheckmateAssets)
add_library(checkmate_assets OBJECT "${asset_source}")
set_target_properties(checkmate_assets PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
target_link_libraries(checkmate_assets PRIVATE checkmate_flags_generated)
list(APPEND generated_objects "$<TARGET_OBJECTS:checkmate_assets>")

add_library(checkmate_objects OBJECT ${library_sources})
set_target_properties(checkmate_objects PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden)
target_include_directories(checkmate_objects PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
target_include_directories(checkmate_objects SYSTEM PRIVATE
    "${generated_dir}" ${engine_include_dirs} $<$<BOOL:${CKM_RUN}>:${DNNL_INCLUDE_DIR}>)
# Own kernels say where loops may be vectorized; no OpenMP runtime comes with this flag. Square roots that may set
# errno cannot be, nor choices between two values when computing the one that is not chosen may trap. Clang would warn
# of loops that it does not vectorize in builds that do not optimize.
target_compile_options(checkmate_objects PRIVATE -fopenmp-simd -fno-math-errno -fno-trapping-math
    $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>)
# Products of tiles are fused multiply-adds where the processor has them; gcc does not make them of standard C otherwise.
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/ops/attention/cpu_attention_tile.c"
    "${PROJECT_SOURCE_DIR}/src/ops/attention/cpu_attention_rows.c" PROPERTIES COMPILE_OPTIONS -ffp-contract=fast)
target_link_libraries(checkmate_objects PRIVATE checkmate_flags ${library_dependencies})
if(TARGET checkmate_generate)
    add_dependencies(checkmate_objects checkmate_generate)
endif()

set(version_script "${PROJECT_SOURCE_DIR}/cmake/checkmate.map")
add_library(checkmate_shared SHARED $<TARGET_OBJECTS:checkmate_objects> ${generated_objects})
# What may change with this name and what may not: docs/ARCHITECTURE.md, "The C interface over time".
set(so_version ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(so_version 0.${PROJECT_VERSION_MINOR})
endif()
set_target_properties(checkmate_shared PROPERTIES
    OUTPUT_NAME checkmate EXPORT_NAME checkmate LINKER_LANGUAGE C
    VERSION ${PROJECT_VERSION} SOVERSION ${so_version} LINK_DEPENDS "${version_script}")
target_link_options(checkmate_shared PRIVATE "LINKER:--version-script=${version_script}")
target_link_libraries(checkmate_shared PRIVATE ${library_dependencies})

add_library(checkmate_static STATIC $<TARGET_OBJECTS:checkmate_objects> ${generated_objects})
set_target_properties(checkmate_static PROPERTIES OUTPUT_NAME checkmate LINKER_LANGUAGE C)
target_link_libraries(checkmate_static PRIVATE ${library_dependencies})

foreach(library checkmate_shared checkmate_static)
    target_link_directories(${library} PUBLIC "$<BUILD_INTERFACE:${engine_library_dirs}>")
    target_include_directories(${library} PUBLIC
        "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
endforeach()

# The names that find_package gives, for projects that take this tree in with add_subdirectory.
add_library(checkmate::checkmate ALIAS checkmate_shared)
add_library(checkmate::checkmate_static ALIAS checkmate_static)

# What a user runs or links; the default target of the Makefile.
add_custom_target(product DEPENDS checkmate_static checkmate_shared)
