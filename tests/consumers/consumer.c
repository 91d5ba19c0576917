/* SPDX-License-Identifier: Apache-2.0 */
#include <sumac/sumac.h>

int main(void) {
  double x[] = {1e100, 1.0, -1e100}, result = 0;
  int64_t n = 3;
  sumac_tensor in = {.data = x, .ndim = 1, .dtype = SUMAC_F64, .shape = &n};
  sumac_tensor out = {.data = &result, .dtype = SUMAC_F64};
  const char major = (char)('0' + SUMAC_VERSION_MAJOR);

  if (sumac_reduce(NULL, SUMAC_SUM, &in, NULL, NULL, &out) != SUMAC_OK || result != 1.0) return 1;
  return sumac_version()[0] != major;
}
