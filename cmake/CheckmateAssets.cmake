# SPDX-License-Identifier: Apache-2.0
# The page that `checkmate report` writes: its parts and the JavaScript library it uses are packed into the library,
# so that a report needs nothing but itself. Sets asset_source.

# Places where Debian and others keep JavaScript.
set(CKM_JAVASCRIPT_DIR "" CACHE PATH "Folder with dygraphs/ when it is not in the system's places")
set(javascript_places "${CKM_JAVASCRIPT_DIR}" /usr/share/javascript /usr/local/share/javascript)

set(asset_files page "${PROJECT_SOURCE_DIR}/src/emit/page/page.html")
foreach(part page.css blocks.js page.js licences.txt)
    list(APPEND asset_files "${part}" "${PROJECT_SOURCE_DIR}/src/emit/page/${part}")
endforeach()

# checkmate_add_javascript(NAME FILE PACKAGE): a library, under the name of its marker in page.html.
function(checkmate_add_javascript name file package)
    string(MAKE_C_IDENTIFIER "CKM_JS_${name}" variable)
    find_file(${variable} "${file}" PATHS ${javascript_places} NO_DEFAULT_PATH DOC "${file} of ${package}")
    mark_as_advanced(${variable})
    if(NOT ${variable})
        message(FATAL_ERROR "The JavaScript library ${file} is missing (Debian package ${package}); "
                            "scripts/setup.sh installs it, -DCKM_JAVASCRIPT_DIR= says where else to look")
    endif()
    set(asset_files "${asset_files};${name};${${variable}}" PARENT_SCOPE)
endfunction()

checkmate_add_javascript(dygraph.css dygraphs/dygraph.min.css libjs-dygraphs)
checkmate_add_javascript(dygraph.js dygraphs/dygraph.min.js libjs-dygraphs)

set(asset_source "${generated_dir}/page_assets.c")
set(asset_inputs ${asset_files})
list(FILTER asset_inputs INCLUDE REGEX "^/")
add_custom_command(
    OUTPUT "${asset_source}"
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${asset_source}" "-DFILES=${asset_files}"
            -P "${PROJECT_SOURCE_DIR}/cmake/pack_assets.cmake"
    DEPENDS ${asset_inputs} "${PROJECT_SOURCE_DIR}/cmake/pack_assets.cmake"
    COMMENT "Packing the parts of the report page"
    VERBATIM)
