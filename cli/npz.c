/* SPDX-License-Identifier: Apache-2.0
 *
 * .npz archives: zip files of .npy files, stored or deflated. A member is a stream like a pipe: what the
 * archive says of its size is not believed, and nothing of it is held in memory but a window.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zip.h>

#include "input.h"

enum { MOST_MEMBERS = 100000 };

static _Noreturn void fail_zip(const struct input *in, zip_error_t *error) {
  fail(EXIT_INPUT, "%s: the archive cannot be read: %s", in->stream.name, zip_error_strerror(error));
}

void npz_open(struct input *in) {
  struct stream *s = &in->stream;
  int code = 0, fd;
  if (!s->regular) fail(EXIT_UNSUPPORTED, "%s: .npz archives are read from files, not from pipes", s->name);
  fd = dup(s->fd);
  if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0) fail(EXIT_OTHER, "%s: out of file descriptors", s->name);
  in->zip = zip_fdopen(fd, ZIP_CHECKCONS, &code);
  if (!in->zip) {
    zip_error_t error;
    close(fd);
    zip_error_init_with_code(&error, code);
    fail_zip(in, &error);
  }
  int64_t count = zip_get_num_entries(in->zip, 0);
  if (count > MOST_MEMBERS)
    fail(EXIT_INPUT, "%s: the archive has more than %d members", s->name, MOST_MEMBERS);
  in->member = allocate((size_t)count * sizeof *in->member);
  for (int64_t i = 0; i < count; i++) {
    const char *name = zip_get_name(in->zip, (zip_uint64_t)i, 0);
    size_t length = name ? strlen(name) : 0;
    if (name && has_control(name)) fail(EXIT_INPUT, "%s: a member's name has control characters", s->name);
    if (length < 4 || strcmp(name + length - 4, ".npy") != 0)
      fail(EXIT_UNSUPPORTED, "%s: member '%s' is no .npy file", s->name, name ? name : "");
    in->member[i] = (struct member){.name = allocate(length - 3)};
    in->members = i + 1;
    memcpy((char *)(uintptr_t)in->member[i].name, name, length - 4);
    ((char *)(uintptr_t)in->member[i].name)[length - 4] = 0; /* numpy's name for it */
  }
}

void npz_close(struct input *in) {
  for (int64_t i = 0; i < in->members; i++) free((char *)(uintptr_t)in->member[i].name);
  free(in->member);
  zip_discard(in->zip);
}

struct zip_file *npz_member(struct input *in, int64_t i) {
  struct zip_file *file = zip_fopen_index(in->zip, (zip_uint64_t)i, 0);
  if (!file)
    fail(EXIT_INPUT, "%s: member '%s' cannot be read: %s", in->stream.name, in->member[i].name,
         zip_error_strerror(zip_get_error(in->zip)));
  return file;
}

size_t npz_read(const struct stream *s, void *to, size_t size) {
  zip_int64_t got = zip_fread(s->zip, to, size);
  if (got < 0) fail(EXIT_INPUT, "%s: %s", s->name, zip_error_strerror(zip_file_get_error(s->zip)));
  return (size_t)got;
}

void npz_close_member(struct stream *s) { zip_fclose(s->zip); }
