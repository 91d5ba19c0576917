# SPDX-License-Identifier: Apache-2.0
# Gives sumac::sumac (shared, if it was built) and sumac::sumac_static.
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/sumacTargets.cmake)
