/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread pool: one job at a time, parts handed out by a counter. A second caller of the same context
 * does not wait, it does its job by itself. After a fork the child has no threads: it leaves the old pool be
 * and makes a new one.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/core.h"
#include "cpu/cpu.h"

struct sumac_pool {
  pid_t owner;
  pthread_mutex_t busy; /* held while a job runs */
  pthread_mutex_t lock; /* guards what follows */
  pthread_cond_t wake, done;
  int threads; /* started so far */
  int wanted;  /* threads that the job may still take */
  int active;  /* threads in the job */
  unsigned long job;
  bool stop;
  sumac_part *run;
  void *arg;
  int parts;
  atomic_int next;
  pthread_t thread[];
};

static void work(struct sumac_pool *pool, int worker) {
  int part;
  while ((part = atomic_fetch_add(&pool->next, 1)) < pool->parts) pool->run(pool->arg, part, worker);
}

static void *thread_main(void *arg) {
  struct sumac_pool *pool = arg;
  unsigned long seen = 0;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    while (!pool->stop && (pool->job == seen || !pool->wanted)) {
      if (pool->job != seen) seen = pool->job; /* too late for this one */
      pthread_cond_wait(&pool->wake, &pool->lock);
    }
    if (pool->stop) break;
    seen = pool->job;
    int worker = pool->wanted--;
    pool->active++;
    pthread_mutex_unlock(&pool->lock);
    struct sumac_fp fp = sumac_fp_enter();
    work(pool, worker);
    sumac_fp_leave(fp);
    pthread_mutex_lock(&pool->lock);
    if (--pool->active == 0) pthread_cond_signal(&pool->done);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

static size_t pool_size(int threads) {
  return sizeof(struct sumac_pool) + (size_t)threads * sizeof(pthread_t);
}

static struct sumac_pool *pool_get(sumac_context *context) {
  static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
  struct sumac_pool *pool = atomic_load(&context->pool);
  pid_t self = getpid();
  if (pool && pool->owner == self) return pool;
  /* The process that forks may hold `making` in another thread: the child then goes without threads. */
  if (pthread_mutex_trylock(&making)) return NULL;
  pool = atomic_load(&context->pool);
  if (!pool || pool->owner != self) {
    pool = sumac_alloc(context, pool_size(context->threads));
    if (pool) {
      memset(pool, 0, pool_size(context->threads));
      pool->owner = self;
      pthread_mutex_init(&pool->busy, NULL);
      pthread_mutex_init(&pool->lock, NULL);
      pthread_cond_init(&pool->wake, NULL);
      pthread_cond_init(&pool->done, NULL);
      atomic_store(&context->pool, pool);
    }
  }
  pthread_mutex_unlock(&making);
  return pool;
}

/* Of a thread. The loops take less than 256 KB (sumac.h), but a C library's default may be 128 KB, and
 * sanitizers want more. */
#define STACK_BYTES ((size_t)1 << 20)

/* Signals are for the program's own threads; but those that an access raises come to the thread that made it,
 * and would kill the process where they are blocked. */
static void start_threads(struct sumac_pool *pool, int wanted) {
  sigset_t all, old;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGFPE);
  sigdelset(&all, SIGILL);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, STACK_BYTES);
  while (pool->threads < wanted && !pthread_create(&pool->thread[pool->threads], &attr, thread_main, pool))
    pool->threads++;
  pthread_attr_destroy(&attr);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void sumac_pool_run(sumac_context *context, int workers, int parts, sumac_part *run, void *arg) {
  if (workers > parts) workers = parts;
  struct sumac_pool *pool = workers > 1 ? pool_get(context) : NULL;
  if (!pool || pthread_mutex_trylock(&pool->busy)) {
    for (int i = 0; i < parts; i++) run(arg, i, 0);
    return;
  }
  start_threads(pool, workers - 1);
  pthread_mutex_lock(&pool->lock);
  pool->run = run;
  pool->arg = arg;
  pool->parts = parts;
  atomic_store(&pool->next, 0);
  pool->wanted = workers - 1;
  pool->job++;
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
  work(pool, 0);
  pthread_mutex_lock(&pool->lock);
  pool->wanted = 0;
  while (pool->active) pthread_cond_wait(&pool->done, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
  pthread_mutex_unlock(&pool->busy);
}

void sumac_pool_destroy(sumac_context *context) {
  struct sumac_pool *pool = atomic_load(&context->pool);
  if (!pool) return;
  if (pool->owner == getpid()) {
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->threads; i++) pthread_join(pool->thread[i], NULL);
    pthread_mutex_destroy(&pool->busy);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->done);
  }
  sumac_free(context, pool, pool_size(context->threads));
}
