/* SPDX-License-Identifier: Apache-2.0 */
#include "view.h"

#include "oracle/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void view_make(view *v, sumac_dtype dtype, int ndim, const int64_t *shape, const int64_t *strides,
               int offset) {
  int64_t size = dtype.bits / 8, low = 0, high = size, dense = 1;
  memset(v, 0, sizeof *v);
  for (int i = ndim - 1; i >= 0; i--) {
    v->shape[i] = shape[i];
    v->strides[i] = strides != NULL ? strides[i] : dense;
    int64_t reach = (shape[i] - 1) * v->strides[i] * size;
    low += reach < 0 ? reach : 0;
    high += reach > 0 ? reach : 0;
    dense *= shape[i];
  }
  if (dense == 0) low = high = 0;
  v->span_size = (size_t)(high - low);

  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t inner = (v->span_size + (size_t)(offset > 0 ? offset : 0) + page) / page * page;
  v->map_size = inner + 2 * page;
  v->map = mmap(NULL, v->map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (v->map == MAP_FAILED || mprotect(v->map + page, inner, PROT_READ | PROT_WRITE) != 0) {
    perror("mmap");
    abort();
  }
  v->span = offset < 0 ? v->map + page + inner - v->span_size : v->map + page + offset;
  memset(v->map + page, 0xff, inner);
  v->tensor = (sumac_tensor){.data = v->span - low, .ndim = ndim, .dtype = dtype, .shape = v->shape};
  v->tensor.device.type = 1;
  v->tensor.strides = strides != NULL ? v->strides : NULL;
}

void view_free(view *v) { munmap(v->map, v->map_size); }

int64_t view_count(const view *v) {
  int64_t n = 1;
  for (int i = 0; i < v->tensor.ndim; i++) n *= v->shape[i];
  return n;
}

void view_fill(view *v, const uint64_t *codes) {
  int64_t index[VIEW_DIMS] = {0}, n = view_count(v);
  for (int64_t i = 0; i < n; i++) {
    oracle_store(&v->tensor, index, codes[i]);
    oracle_next(v->tensor.ndim, v->shape, index);
  }
}

void view_array(view *v, sumac_dtype dtype, const uint64_t *codes, int64_t n) {
  view_make(v, dtype, 1, &n, NULL, -1);
  view_fill(v, codes);
}

sumac_tensor tensor_of(sumac_dtype dtype, const void *data, int64_t *shape) {
  sumac_tensor t = {
      .data = (void *)(uintptr_t)data, .device = {1, 0}, .ndim = 1, .dtype = dtype, .shape = shape};
  return t;
}

sumac_tensor scalar_of(sumac_dtype dtype, void *data) {
  sumac_tensor t = {.data = data, .device = {1, 0}, .dtype = dtype};
  return t;
}
