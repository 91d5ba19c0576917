/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts.
 */
#include "core/core.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"

static sumac_context default_context;
static pthread_once_t default_once = PTHREAD_ONCE_INIT;

static void make_default(void) {
  default_context.threads = sumac_cpu_threads();
  default_context.loops = sumac_cpu_loops(0);
}

sumac_status sumac_context_get(sumac_context *given, sumac_context **context) {
  if (!given) pthread_once(&default_once, make_default);
  *context = given ? given : &default_context;
  return SUMAC_OK;
}

void *sumac_alloc(const sumac_context *context, size_t size) {
  const sumac_config *c = &context->config;
  if (c->alloc) return c->alloc(c->user, size, 64);
  return aligned_alloc(64, (size + 63) & ~(size_t)63);
}

void sumac_free(const sumac_context *context, void *memory, size_t size) {
  const sumac_config *c = &context->config;
  if (!memory) return;
  if (c->alloc)
    c->dealloc(c->user, memory, size);
  else
    free(memory);
}

sumac_status sumac_context_create(const sumac_config *config, sumac_context **context) {
  static const sumac_config none;
  if (!context) return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_context_create: context must not be NULL");
  *context = NULL;
  if (!config) config = &none;
  if (config->threads < 0 || config->threads > 4096)
    return sumac_fail(SUMAC_ERR_ARGUMENT,
                      "sumac_context_create: threads is %d; it must be 0 (automatic) to 4096",
                      (int)config->threads);
  if (config->cpu_features & ~(SUMAC_CPU_BASE | SUMAC_CPU_AVX2 | SUMAC_CPU_AVX512))
    return sumac_fail(SUMAC_ERR_ARGUMENT,
                      "sumac_context_create: cpu_features 0x%x has bits that are no SUMAC_CPU_*",
                      (unsigned)config->cpu_features);
  if (!config->alloc != !config->dealloc)
    return sumac_fail(SUMAC_ERR_ARGUMENT,
                      "sumac_context_create: alloc and dealloc must be set both, or none");
  if (memcmp(config->reserved, none.reserved, sizeof none.reserved))
    return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_context_create: reserved fields must be zero");
  sumac_context made = {.config = *config};
  sumac_context *c = sumac_alloc(&made, sizeof *c);
  if (!c) return sumac_fail(SUMAC_ERR_MEMORY, "sumac_context_create: out of memory");
  made.threads = config->threads ? config->threads : sumac_cpu_threads();
  made.loops = sumac_cpu_loops(config->cpu_features);
  *c = made;
  *context = c;
  return SUMAC_OK;
}

void sumac_context_destroy(sumac_context *context) {
  if (!context || context == &default_context) return;
  sumac_pool_destroy(context);
  sumac_context copy = *context;
  sumac_free(&copy, context, sizeof *context);
}

int sumac_context_threads(sumac_context *context) {
  sumac_context_get(context, &context);
  return context->threads;
}

const char *sumac_context_isa(sumac_context *context) {
  sumac_context_get(context, &context);
  return context->loops->name;
}
