/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of what exists, and lookups by name.
 */
#include "core/core.h"

#include <string.h>

enum { LIST_SIZE = 256 };

#define STRING(X) #X
#define VERSION(A, B, C) STRING(A) "." STRING(B) "." STRING(C)

/* The public enums are written out in sumac.h for its readers; the lists must agree. */
enum {
#define SUMAC_OP(ID, ...) OP_##ID,
#include "model/ops.def"
#undef SUMAC_OP
};
#define SUMAC_OP(ID, ...) _Static_assert((int)OP_##ID == (int)SUMAC_##ID, "sumac_op and ops.def differ");
#include "model/ops.def"
#undef SUMAC_OP
#define SUMAC_STATUS(ID, VALUE) _Static_assert(SUMAC_##ID == VALUE, "sumac_status and errors.def differ");
#include "model/errors.def"
#undef SUMAC_STATUS
_Static_assert((int)SUMAC_KIND_SUM == SUMAC_M_SUM && (int)SUMAC_KIND_ABS == SUMAC_M_ABS &&
                   (int)SUMAC_KIND_SQUARE == SUMAC_M_SQUARE && (int)SUMAC_KIND_DOT == SUMAC_M_DOT &&
                   (int)SUMAC_KIND_MOMENTS == SUMAC_M_MOMENTS,
               "a kind of state is the map it accumulates");

static const char *const acc_names[SUMAC_ACCS] = {
#define SUMAC_ACC(ID, NAME) [SUMAC_ACC_##ID] = NAME,
#include "model/accs.def"
#undef SUMAC_ACC
};

const char *const sumac_map_names[SUMAC_MAPS] = {
    [SUMAC_M_SUM] = "sum",       [SUMAC_M_ABS] = "abs",         [SUMAC_M_SQUARE] = "square",
    [SUMAC_M_DOT] = "dot",       [SUMAC_M_MOMENTS] = "moments", [SUMAC_M_MIN] = "min",
    [SUMAC_M_MAX] = "max",       [SUMAC_M_MAXABS] = "maxabs",   [SUMAC_M_ARGMIN] = "argmin",
    [SUMAC_M_ARGMAX] = "argmax", [SUMAC_M_NONZERO] = "nonzero", [SUMAC_M_ANY] = "any",
    [SUMAC_M_ALL] = "all",       [SUMAC_M_PROD] = "prod",
};

const char *sumac_version(void) {
  return VERSION(SUMAC_VERSION_MAJOR, SUMAC_VERSION_MINOR, SUMAC_VERSION_PATCH);
}

const char *sumac_op_name(sumac_op op) { return (unsigned)op < SUMAC_OPS ? sumac_ops[op].name : NULL; }

const char *sumac_acc_name(sumac_acc acc) { return (unsigned)acc < SUMAC_ACCS ? acc_names[acc] : NULL; }

static int find_type(sumac_dtype d) {
  int i = 0;
  while (i < SUMAC_TYPES && memcmp(&sumac_types[i].dtype, &d, sizeof d) != 0) i++;
  return i;
}

const char *sumac_dtype_name(sumac_dtype dtype) {
  int i = find_type(dtype);
  return i < SUMAC_TYPES ? sumac_types[i].name : NULL;
}

int sumac_dtype_at(int i, sumac_dtype *dtype) {
  if (i < 0 || i >= SUMAC_TYPES || !dtype) return 0;
  *dtype = sumac_types[i].dtype;
  return 1;
}

static const char *list_types(char list[LIST_SIZE]) {
  list[0] = 0;
  for (int i = 0; i < SUMAC_TYPES; i++) sumac_list_add(list, LIST_SIZE, sumac_types[i].name);
  return list;
}

/* Why a dtype is not taken, said by its own name where it has one. */
enum sumac_type sumac_type_of(sumac_dtype d, const char *what, sumac_status *status) {
  static const char *const codes[] = {"int",
                                      "uint",
                                      "float",
                                      "opaque handle",
                                      "bfloat",
                                      "complex",
                                      "bool",
                                      "float8_e3m4",
                                      "float8_e4m3",
                                      "float8_e4m3b11fnuz",
                                      "float8_e4m3fn",
                                      "float8_e4m3fnuz",
                                      "float8_e5m2",
                                      "float8_e5m2fnuz",
                                      "float8_e8m0fnu",
                                      "float6_e2m3fn",
                                      "float6_e3m2fn",
                                      "float4_e2m1fn"};
  char list[LIST_SIZE];
  int i = find_type(d);
  if (i < SUMAC_TYPES) return (enum sumac_type)i;
  list_types(list);
  if (d.lanes != 1)
    *status = sumac_fail(SUMAC_ERR_UNSUPPORTED, "%s: dtype has %d lanes; only 1 is supported", what, d.lanes);
  else if (d.code < sizeof codes / sizeof *codes)
    *status =
        sumac_fail(SUMAC_ERR_UNSUPPORTED, "%s: dtype %s with %d bits is not supported; supported are %s",
                   what, codes[d.code], d.bits, list);
  else
    *status = sumac_fail(SUMAC_ERR_UNSUPPORTED, "%s: dtype code %d is not known; supported are %s", what,
                         d.code, list);
  return SUMAC_TYPES;
}

sumac_status sumac_op_by_name(const char *name, sumac_op *op) {
  if (!name || !op) return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_op_by_name: name and op must not be NULL");
  for (int i = 0; i < SUMAC_OPS; i++) {
    if (strcmp(name, sumac_ops[i].name)) continue;
    *op = (sumac_op)i;
    return SUMAC_OK;
  }
  char list[LIST_SIZE] = "";
  for (int i = 0; i < SUMAC_OPS; i++) sumac_list_add(list, sizeof list, sumac_ops[i].name);
  return sumac_fail(SUMAC_ERR_ARGUMENT, "no operation is named '%.40s'; there are %s", name, list);
}

sumac_status sumac_acc_by_name(const char *name, sumac_acc *acc) {
  if (!name || !acc)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_acc_by_name: name and acc must not be NULL");
  for (int i = 0; i < SUMAC_ACCS; i++) {
    if (strcmp(name, acc_names[i])) continue;
    *acc = (sumac_acc)i;
    return SUMAC_OK;
  }
  char list[LIST_SIZE] = "";
  for (int i = 0; i < SUMAC_ACCS; i++) sumac_list_add(list, sizeof list, acc_names[i]);
  return sumac_fail(SUMAC_ERR_ARGUMENT, "no accumulator is named '%.40s'; there are %s", name, list);
}

sumac_status sumac_dtype_by_name(const char *name, sumac_dtype *dtype) {
  if (!name || !dtype)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_dtype_by_name: name and dtype must not be NULL");
  for (int i = 0; i < SUMAC_TYPES; i++) {
    if (strcmp(name, sumac_types[i].name) && strcmp(name, sumac_types[i].long_name)) continue;
    *dtype = sumac_types[i].dtype;
    return SUMAC_OK;
  }
  char list[LIST_SIZE];
  return sumac_fail(SUMAC_ERR_ARGUMENT, "no dtype is named '%.40s'; there are %s", name, list_types(list));
}
