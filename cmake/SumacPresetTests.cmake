# SPDX-License-Identifier: Apache-2.0
# The tests labelled `quick` once more under other presets (sanitizers, another compiler), each as one
# test of this build: so that one run of ctest tells all. Only the release preset asks for them.
set(SUMAC_TEST_PRESETS "" CACHE STRING "Presets whose workflow is run as a test of this build")

foreach(preset ${SUMAC_TEST_PRESETS})
  if(preset STREQUAL clang)
    find_program(SUMAC_TEST_clang clang)
    if(NOT SUMAC_TEST_clang)
      message(NOTICE "left out: the tests of the preset clang (no clang)")
      continue()
    endif()
  endif()
  add_test(NAME preset.${preset} COMMAND ${CMAKE_COMMAND} --workflow --preset ${preset}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  # ThreadSanitizer makes the tests ten times slower: every night, not every time.
  set(labels preset)
  if(preset STREQUAL tsan)
    list(APPEND labels nightly)
  endif()
  set_tests_properties(preset.${preset} PROPERTIES LABELS "${labels}" TIMEOUT 1800 PROCESSORS 2)
endforeach()
