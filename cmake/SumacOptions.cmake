# SPDX-License-Identifier: Apache-2.0
# How all C code of this tree is compiled: `sumac_options` is linked privately by every target.
add_library(sumac_options INTERFACE)
target_compile_features(sumac_options INTERFACE c_std_17)
target_compile_options(sumac_options INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
  # A contracted a*b+c rounds once where the source says twice: results would depend on the compiler.
  -ffp-contract=off
  # The same bytes whatever directory the tree is built in.
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -ffile-prefix-map=${PROJECT_BINARY_DIR}=build)
# Empty, so that a file may define it as well.
target_compile_definitions(sumac_options INTERFACE _GNU_SOURCE=)

if(SUMAC_SANITIZE)
  target_compile_options(sumac_options INTERFACE
    -fsanitize=${SUMAC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(sumac_options INTERFACE -fsanitize=${SUMAC_SANITIZE})
endif()
