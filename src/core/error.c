/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures: a status and one sentence a thread.
 */
#include "core/core.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[512];

sumac_status sumac_fail(sumac_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return status;
}

void sumac_list_add(char *list, size_t size, const char *name) {
  size_t used = strlen(list);
  snprintf(list + used, size - used, "%s%s", used ? ", " : "", name);
}

const char *sumac_error_message(void) { return message; }

const char *sumac_status_name(sumac_status status) {
  static const char *const names[] = {
#define SUMAC_STATUS(ID, VALUE) [VALUE] = "SUMAC_" #ID,
#include "model/errors.def"
#undef SUMAC_STATUS
  };
  return (unsigned)status < sizeof names / sizeof *names ? names[status] : NULL;
}
