/* SPDX-License-Identifier: Apache-2.0 */
#include "loops.h"

#include <stdint.h>

double loop_sum_f64(const void *x, const void *y, size_t n) {
  (void)y;
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += ((const double *)x)[i];
  return sum;
}

double loop_sum_f32(const void *x, const void *y, size_t n) {
  (void)y;
  float sum = 0;
  for (size_t i = 0; i < n; i++) sum += ((const float *)x)[i];
  return sum;
}

double loop_dot_f64(const void *x, const void *y, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += ((const double *)x)[i] * ((const double *)y)[i];
  return sum;
}

double loop_dot_f32(const void *x, const void *y, size_t n) {
  float sum = 0;
  for (size_t i = 0; i < n; i++) sum += ((const float *)x)[i] * ((const float *)y)[i];
  return sum;
}

double loop_sum_i8(const void *x, const void *y, size_t n) {
  (void)y;
  int64_t sum = 0;
  for (size_t i = 0; i < n; i++) sum += ((const int8_t *)x)[i];
  return (double)sum;
}

double loop_sum_i16(const void *x, const void *y, size_t n) {
  (void)y;
  int64_t sum = 0;
  for (size_t i = 0; i < n; i++) sum += ((const int16_t *)x)[i];
  return (double)sum;
}

double loop_sum_i32(const void *x, const void *y, size_t n) {
  (void)y;
  int64_t sum = 0;
  for (size_t i = 0; i < n; i++) sum += ((const int32_t *)x)[i];
  return (double)sum;
}

double loop_sum_i64(const void *x, const void *y, size_t n) {
  (void)y;
  int64_t sum = 0;
  for (size_t i = 0; i < n; i++) sum += ((const int64_t *)x)[i];
  return (double)sum;
}
