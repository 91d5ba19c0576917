# SPDX-License-Identifier: Apache-2.0
# The parts beside the library. One whose dependencies are missing is left out, by name.
find_package(PkgConfig QUIET)

# sumac_part(NAME OPTION DIRECTORY MODULES...) adds DIRECTORY if OPTION is on and pkg-config finds all
# MODULES; SUMAC_PART_<DIRECTORY> tells.
function(sumac_part name option directory)
  if(NOT ${option} OR NOT EXISTS ${PROJECT_SOURCE_DIR}/${directory}/CMakeLists.txt)
    return()
  endif()
  set(missing "")
  foreach(module ${ARGN})
    if(PkgConfig_FOUND)
      pkg_check_modules(SUMAC_HAVE_${module} QUIET ${module})
    endif()
    if(NOT SUMAC_HAVE_${module}_FOUND)
      list(APPEND missing ${module})
    endif()
  endforeach()
  if(missing)
    list(JOIN missing ", " missing)
    message(NOTICE "left out: ${name} (pkg-config does not find ${missing})")
    return()
  endif()
  add_subdirectory(${directory})
  set(SUMAC_PART_${directory} ON PARENT_SCOPE)
endfunction()

sumac_part("the command" SUMAC_BUILD_CLI cli popt jansson libzip)
sumac_part("the tests" SUMAC_BUILD_TESTS tests cmocka mpfr)
sumac_part("the benchmarks" SUMAC_BUILD_BENCH bench)
