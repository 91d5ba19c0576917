// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <sumac/sumac.h>
#include <vector>

int main() {
  std::vector<float> x{3.0f, 4.0f};
  float result = 0;
  std::int64_t n = static_cast<std::int64_t>(x.size());
  sumac_tensor in{}, out{};
  in.data = x.data();
  in.ndim = 1;
  in.dtype = SUMAC_F32;
  in.shape = &n;
  out.data = &result;
  out.dtype = SUMAC_F32;
  return sumac_reduce(nullptr, SUMAC_NORM2, &in, nullptr, nullptr, &out) != SUMAC_OK || result != 5.0f;
}
