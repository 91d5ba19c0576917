/* SPDX-License-Identifier: Apache-2.0 */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- streams ------------------------------------------------------------------------------- */

static void stream_open(struct stream *s, const char *path) {
  bool standard = strcmp(path, "-") == 0;
  *s = (struct stream){.name = standard ? "standard input" : path};
  s->fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (!standard && s->fd == STDIN_FILENO) { /* it was closed: a later '-' must not read this file */
    s->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(STDIN_FILENO);
  }
  struct stat st;
  if (s->fd < 0 || fstat(s->fd, &st) != 0) fail(EXIT_INPUT, "%s: %s", s->name, strerror(errno));
  off_t start = lseek(s->fd, 0, SEEK_CUR);
  s->regular = S_ISREG(st.st_mode) && start >= 0;
  if (s->regular) {
    s->start = (uint64_t)start;
    s->size = (uint64_t)st.st_size;
  }
  s->window = allocate(STREAM_CAPACITY + STREAM_SLACK);
  memset(s->window, 0, STREAM_SLACK);
}

static _Noreturn void fail_short(const struct stream *s) {
  fail(EXIT_INPUT, "%s: the file became shorter while it was read", s->name);
}

/* Is the file shorter than it was? */
static bool has_shrunk(const struct stream *s) {
  struct stat st;
  return s->regular && (fstat(s->fd, &st) != 0 || (uint64_t)st.st_size < s->size);
}

static size_t read_some(const struct stream *s, void *to, size_t size) {
  if (s->zip) return npz_read(s, to, size);
  for (;;) {
    ssize_t got = read(s->fd, to, size);
    if (got >= 0) return (size_t)got;
    if (errno != EINTR) fail(EXIT_INPUT, "%s: %s", s->name, strerror(errno));
  }
}

bool stream_more(struct stream *s) {
  memmove(s->window, s->window + s->begin, s->end - s->begin);
  s->position += s->begin;
  s->end -= s->begin;
  s->begin = 0;
  size_t got =
      s->ended || s->end == STREAM_CAPACITY ? 0 : read_some(s, s->window + s->end, STREAM_CAPACITY - s->end);
  if (got == 0 && s->end < STREAM_CAPACITY) {
    if (has_shrunk(s)) fail_short(s);
    s->ended = true;
  }
  s->end += got;
  memset(s->window + s->end, 0, STREAM_SLACK);
  return got > 0;
}

bool stream_need(struct stream *s, size_t count) {
  while (s->end - s->begin < count)
    if (!stream_more(s)) return false;
  return true;
}

uint64_t stream_left(const struct stream *s) {
  if (!s->regular) return UINT64_MAX;
  uint64_t used = s->start + s->position + s->begin;
  return s->size > used ? s->size - used : 0;
}

/* ---- mapping ------------------------------------------------------------------------------- */

/* A mapped file that another process truncates raises SIGBUS where its pages are gone, possibly in
 * one of the library's threads. The handler puts a page of zeros there, so that the reduction runs to
 * its end, and input_verify() then finds the result void. */
static struct mapping { char *begin, *end; } mappings[2];
static atomic_int mapping_count;
static atomic_bool page_lost; /* set in whichever thread meets the gap */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_BOOL_LOCK_FREE == 2, "a signal handler takes no lock");

static void on_bus_error(int signal_number, siginfo_t *info, void *context) {
  (void)context;
  char *address = info->si_addr;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (int i = 0; i < mapping_count; i++) {
    if (address < mappings[i].begin || address >= mappings[i].end) continue;
    char *start = address - (uintptr_t)address % page;
    if (mmap(start, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
      page_lost = true;
      return;
    }
  }
  signal(signal_number, SIG_DFL); /* not ours: happens again on return, and kills */
}

/* Maps the rest of a regular file, if it can be. */
static void map_rest(struct input *in, uint64_t size) {
  struct stream *s = &in->stream;
  uint64_t from = s->start + s->position + s->begin, page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t lead = from % page;
  char *base = mmap(NULL, size + lead, PROT_READ, MAP_PRIVATE, s->fd, (off_t)(from - lead));
  if (base == MAP_FAILED) return; /* some file systems cannot: it is read instead */
  mappings[mapping_count] = (struct mapping){base, base + lead + size};
  mapping_count++;
  struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, NULL);
  madvise(base, size + lead, MADV_SEQUENTIAL);
  in->data = base + lead;
}

void input_verify(const struct input *in) {
  /* The page that holds the new end reads as zeros behind it without any signal: ask for the size. */
  if (page_lost || has_shrunk(&in->stream)) fail_short(&in->stream);
  char rest[1 << 14]; /* an archive compares a member's checksum at its end, and more than the array may be in
                         it */
  while (in->stream.zip && read_some(&in->stream, rest, sizeof rest)) continue;
}

bool has_control(const char *name) {
  for (const char *p = name; *p; p++)
    if ((unsigned char)*p < ' ' || *p == 127) return true;
  return false;
}

/* ---- shapes -------------------------------------------------------------------------------- */

int64_t shape_size(int32_t ndim, const int64_t *shape) {
  const int64_t largest = INT64_C(1) << 62;
  int64_t size = 1;
  for (int i = 0; i < ndim; i++)
    if (shape[i] == 0) return 0;
  for (int i = 0; i < ndim; i++)
    if (__builtin_mul_overflow(size, shape[i], &size) || size > largest) return -1;
  return size;
}

static void raw_open(struct input *in, const struct input_options *o) {
  struct stream *s = &in->stream;
  if (!o->has_dtype) fail(EXIT_USAGE, "%s: raw data needs --dtype", s->name);
  in->dtype = o->dtype;
  size_t item = dtype_size(o->dtype);
  if (s->regular && o->offset > stream_left(s))
    fail(EXIT_INPUT, "%s: the file has %llu bytes, fewer than --offset %llu", s->name,
         (unsigned long long)stream_left(s), (unsigned long long)o->offset);
  for (uint64_t skip = o->offset; skip > 0;) {
    if (s->regular) {
      if (lseek(s->fd, (off_t)(s->start + o->offset), SEEK_SET) < 0)
        fail(EXIT_INPUT, "%s: %s", s->name, strerror(errno));
      s->position = o->offset;
      s->begin = s->end = 0;
      break;
    }
    if (!stream_need(s, 1)) fail(EXIT_INPUT, "%s: the data ends before --offset", s->name);
    uint64_t step = s->end - s->begin < skip ? s->end - s->begin : skip;
    s->begin += step;
    skip -= step;
  }
  in->ndim = o->has_shape ? o->ndim : 1;
  int open_axis = o->has_shape ? -1 : 0;
  for (int i = 0; i < in->ndim; i++) {
    in->shape[i] = o->has_shape && o->shape[i] >= 0 ? o->shape[i] : 1;
    if (o->has_shape && o->shape[i] < 0) open_axis = i;
  }
  if (open_axis < 0) return;
  if (!s->regular) { /* its length shows only at the end */
    if (in->ndim > 1) fail(EXIT_USAGE, "%s: --shape with -1 needs a file, not a pipe", s->name);
    in->shape[0] = 0;
    in->n = -1;
    return;
  }
  int64_t rest = shape_size(in->ndim, in->shape);
  if (rest < 0) return; /* input_open reports it */
  uint64_t left = stream_left(s);
  uint64_t row = rest ? (uint64_t)rest * item : item;
  if (rest > INT64_MAX / 8 || left % row)
    fail(EXIT_INPUT, "%s: %llu bytes are no whole number of %s of %llu bytes", s->name,
         (unsigned long long)left, in->ndim > 1 ? "rows" : "elements", (unsigned long long)row);
  in->shape[open_axis] = rest ? (int64_t)(left / row) : 0;
}

static bool has_suffix(const char *name, const char *suffix) {
  size_t n = strlen(name), k = strlen(suffix);
  return n >= k && strcasecmp(name + n - k, suffix) == 0;
}

static enum input_format detect(struct input *in, const struct input_options *o) {
  struct stream *s = &in->stream;
  if (o->format != FORMAT_AUTO) return o->format;
  if (o->has_shape || o->offset) return FORMAT_RAW;
  if (stream_need(s, 6) && memcmp(s->window, "\x93NUMPY", 6) == 0) return FORMAT_NPY;
  if (has_suffix(s->name, ".npy")) return FORMAT_NPY;
  if (has_suffix(s->name, ".safetensors")) return FORMAT_SAFETENSORS;
  if (has_suffix(s->name, ".npz") || (s->end >= 4 && memcmp(s->window, "PK\3\4", 4) == 0)) return FORMAT_NPZ;
  if (has_suffix(s->name, ".raw") || has_suffix(s->name, ".bin")) return FORMAT_RAW;
  return FORMAT_TEXT;
}

void input_open(struct input *in, const char *path, const struct input_options *o) {
  *in = (struct input){0};
  struct stream *s = &in->stream;
  stream_open(s, path);
  in->format = detect(in, o);
  if (in->format != FORMAT_TEXT && (o->column || o->delimiter || o->header != HEADER_AUTO))
    fail(EXIT_USAGE, "%s: --column, --delimiter and --header are for text", s->name);
  if (in->format != FORMAT_RAW && (o->has_shape || o->offset))
    fail(EXIT_USAGE, "%s: --shape and --offset are for raw data", s->name);
  if (in->format == FORMAT_TEXT) {
    text_open(in, o);
    return;
  }
  if (in->format == FORMAT_SAFETENSORS && o->has_dtype)
    fail(EXIT_USAGE, "%s: a .safetensors file knows its dtypes; --dtype does not apply", s->name);
  switch (in->format) {
  case FORMAT_NPZ: npz_open(in); return;
  case FORMAT_NPY: npy_open(in, o); break;
  case FORMAT_SAFETENSORS: safetensors_open(in); break;
  default: raw_open(in, o);
  }
  if (in->n < 0) return;

  in->n = shape_size(in->ndim, in->shape);
  uint64_t size;
  if (in->n < 0) fail(EXIT_INPUT, "%s: the shape has more than 2^62 elements", s->name);
  bool fits =
      !__builtin_mul_overflow((uint64_t)in->n, dtype_size(in->dtype), &size) && size <= stream_left(s);
  if (!fits && s->regular)
    fail(EXIT_INPUT, "%s: the data ends early: %lld elements of %s do not fit in the %llu bytes there are",
         s->name, (long long)in->n, sumac_dtype_name(in->dtype), (unsigned long long)stream_left(s));
  if (s->regular && !in->swap && size > 0) map_rest(in, size); /* a pipe shows what it holds when read */
}

void input_close(struct input *in) {
  if (in->is_member) {
    if (in->stream.zip) npz_close_member(&in->stream);
    free(in->owned);
    free(in->stream.window);
    free(in->label);
    return;
  }
  for (int i = 0; i < mapping_count; i++) {
    struct mapping m = mappings[i];
    if ((const char *)in->data < m.begin || (const char *)in->data >= m.end) continue;
    mappings[i] = mappings[mapping_count - 1];
    mapping_count--;
    munmap(m.begin, (size_t)(m.end - m.begin));
  }
  if (in->text) text_close(in->text);
  if (in->json) safetensors_close(in);
  if (in->zip) npz_close(in);
  free(in->owned);
  free(in->stream.window);
  close(in->stream.fd);
}

/* ---- elements ------------------------------------------------------------------------------ */

static void swap_bytes(void *elements, int64_t count, size_t item) {
  char *p = elements;
  for (int64_t i = 0; i < count; i++, p += item) {
    uint16_t b16;
    uint32_t b32;
    uint64_t b64;
    switch (item) {
    case 2: memcpy(&b16, p, 2), b16 = __builtin_bswap16(b16), memcpy(p, &b16, 2); break;
    case 4: memcpy(&b32, p, 4), b32 = __builtin_bswap32(b32), memcpy(p, &b32, 4); break;
    case 8: memcpy(&b64, p, 8), b64 = __builtin_bswap64(b64), memcpy(p, &b64, 8); break;
    default: return;
    }
  }
}

int64_t input_read(struct input *in, void *elements, int64_t capacity) {
  if (in->format == FORMAT_TEXT) return text_read(in, elements, capacity);
  struct stream *s = &in->stream;
  size_t item = dtype_size(in->dtype), got = 0;
  if (in->n >= 0 && capacity > in->n - in->done) capacity = in->n - in->done;
  size_t wanted = (size_t)capacity * item;
  if (s->end > s->begin) {
    got = s->end - s->begin < wanted ? s->end - s->begin : wanted;
    memcpy(elements, s->window + s->begin, got);
    s->begin += got;
  }
  while (got < wanted) {
    size_t more = read_some(s, (char *)elements + got, wanted - got);
    if (more == 0) break;
    got += more;
  }
  if (got < wanted && in->n >= 0) {
    if (s->regular) fail_short(s);
    fail(EXIT_INPUT, "%s: the data ends early: %lld elements of %s were to come", s->name, (long long)in->n,
         sumac_dtype_name(in->dtype));
  }
  if (got % item) fail(EXIT_INPUT, "%s: the data ends inside an element of %zu bytes", s->name, item);
  int64_t count = (int64_t)(got / item);
  if (in->swap) swap_bytes(elements, count, item);
  in->done += count;
  if (in->n < 0 && count == 0) in->n = in->shape[0] = in->done; /* now it is known */
  return count;
}

void input_load(struct input *in) {
  if (in->data) return;
  /* Grown as data arrives, so a header that promises much costs no more than what does arrive. */
  size_t item = dtype_size(in->dtype);
  int64_t capacity = 1 << 16, count = 0, got;
  in->owned = allocate((size_t)capacity * item);
  while ((got = input_read(in, (char *)in->owned + (size_t)count * item, capacity - count)) > 0) {
    count += got;
    if (count == capacity) {
      capacity *= 2;
      in->owned = reallocate(in->owned, (size_t)capacity * item);
    }
  }
  in->data = in->owned;
  if (in->format == FORMAT_TEXT) text_shape(in);
  if (in->format == FORMAT_SAFETENSORS && stream_need(&in->stream, 1)) safetensors_fail_rest(in);
}

int64_t input_find(const struct input *in, const char *name) {
  for (int64_t i = 0; i < in->members; i++)
    if (strcmp(in->member[i].name, name) == 0) return i;
  fail(EXIT_INPUT, "%s: there is no array '%s' among the %lld it holds", in->stream.name, name,
       (long long)in->members);
}

void input_member(struct input *in, const struct input_options *o, int64_t i, struct input *member) {
  const struct member *m = &in->member[i];
  if (in->format == FORMAT_NPZ) {
    size_t length = strlen(in->stream.name) + strlen(m->name) + 3;
    *member = (struct input){.format = FORMAT_NPY, .is_member = true, .label = allocate(length)};
    snprintf(member->label, length, "%s: %s", in->stream.name, m->name);
    member->stream = (struct stream){.name = member->label, .fd = -1, .zip = npz_member(in, i)};
    member->stream.window = allocate(STREAM_CAPACITY + STREAM_SLACK);
    npy_open(member, o);
    member->n = shape_size(member->ndim, member->shape);
    if (member->n < 0) fail(EXIT_INPUT, "%s: the shape has more than 2^62 elements", member->label);
    return;
  }
  input_load(in);
  *member =
      (struct input){.format = FORMAT_RAW, .is_member = true, .dtype = m->dtype, .ndim = m->ndim, .n = m->n};
  member->stream = (struct stream){.name = m->name, .fd = -1, .ended = true};
  member->data = (const char *)in->data + m->offset;
  memcpy(member->shape, m->shape, (size_t)m->ndim * sizeof *m->shape);
}

double input_bytes(const struct input *in) {
  if (in->format == FORMAT_TEXT) return (double)(in->stream.position + in->stream.begin);
  return (double)in->n * (double)dtype_size(in->dtype);
}

sumac_tensor input_tensor(struct input *in) {
  int64_t step = 1;
  for (int i = 0; i < in->ndim && in->n > 0; i++) { /* sizes beside a 0 may have any product */
    in->strides[i] = step;
    step *= in->shape[i];
  }
  return (sumac_tensor){.data = (void *)(uintptr_t)in->data,
                        .ndim = in->ndim,
                        .dtype = in->dtype,
                        .shape = in->shape,
                        .strides = in->fortran ? in->strides : NULL};
}
