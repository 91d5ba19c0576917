/* SPDX-License-Identifier: Apache-2.0
 *
 * Files as arrays. An input is either mapped (`data` is set) or read front to back in chunks, and
 * can then be loaded whole. Formats: .npy (npy.c), .npz (npz.c), .safetensors
 * (safetensors.c), raw bytes, text (text.c).
 */
#ifndef SUMAC_CLI_INPUT_H
#define SUMAC_CLI_INPUT_H

#include "cli.h"

enum input_format { FORMAT_AUTO, FORMAT_NPY, FORMAT_RAW, FORMAT_TEXT, FORMAT_SAFETENSORS, FORMAT_NPZ };
enum header_rule { HEADER_AUTO, HEADER_YES, HEADER_NO };

/* What the command line says about its files; zero is "not said". */
struct input_options {
  enum input_format format;
  bool has_dtype;
  sumac_dtype dtype;
  bool has_shape;
  int32_t ndim;
  int64_t shape[SUMAC_MAX_DIMS]; /* at most one −1: whatever the file holds */
  uint64_t offset;
  const char *column; /* a number from 1, or a name in the header */
  char delimiter;
  enum header_rule header;
  bool empty_is_nan; /* an empty field is a NaN rather than an error */
  bool table;        /* text as rows of equal length rather than a plain sequence */
};

struct zip_file;

/* Bytes of a file, a pipe or an archive's member with a window on them; STREAM_SLACK zero bytes follow the
 * window. */
enum { STREAM_CAPACITY = 1 << 20, STREAM_SLACK = 16 };
struct stream {
  const char *name;
  int fd;
  struct zip_file *zip; /* in place of fd */
  bool regular;
  bool ended;
  uint64_t start; /* of a regular file: where reading began, and the size of the file */
  uint64_t size;
  uint64_t position; /* of the window's first byte, counted from `start` */
  char *window;      /* window[begin, end) has been read and not been used */
  size_t begin, end;
};

/* Drops the bytes before `begin` and reads more behind `end`. False if the input has ended or the
 * window is full. */
bool stream_more(struct stream *stream);

/* Makes `count` bytes (at most STREAM_CAPACITY) available unless the input ends before. */
bool stream_need(struct stream *stream, size_t count);

/* How many unread bytes a regular file still has; UINT64_MAX for a pipe. */
uint64_t stream_left(const struct stream *stream);

struct text;
struct json_t;
struct zip;

/* One of the arrays in a file of many. Of an archive only its name is known before it is opened. */
struct member {
  const char *name;
  sumac_dtype dtype;
  int32_t ndim;
  int64_t *shape;
  int64_t n;
  uint64_t offset; /* in the file's data */
};

struct input {
  struct stream stream;
  enum input_format format;
  sumac_dtype dtype;
  int32_t ndim;
  int64_t shape[SUMAC_MAX_DIMS];
  int64_t n;        /* elements; −1 until the end of raw data from a pipe; of text: those read so far */
  bool fortran;     /* first index varies fastest */
  bool swap;        /* other byte order */
  bool is_member;   /* of an input of many, whose memory it borrows */
  const void *data; /* the elements in storage order, or NULL: input_read() or input_load() them */
  void *owned;      /* the memory of loaded elements */
  int64_t strides[SUMAC_MAX_DIMS];
  int64_t done;
  struct text *text;
  int64_t members; /* .npz, and .safetensors: then the input itself is all data as bytes */
  struct member *member;
  char *label;         /* of a member: the archive's name and its own */
  struct json_t *json; /* .safetensors: what holds the names */
  struct zip *zip;     /* .npz */
};

void input_open(struct input *in, const char *path, const struct input_options *options);

void input_close(struct input *in);

/* The next elements in storage order, at most `capacity`; 0 at the end. */
int64_t input_read(struct input *in, void *elements, int64_t capacity);

/* Reads all that is left into memory, so that `data`, `shape` and `n` are set. */
void input_load(struct input *in);

/* Bytes of the elements, or of the text they were read from. */
double input_bytes(const struct input *in);

/* The loaded or mapped array, borrowed from the input. */
sumac_tensor input_tensor(struct input *in);

/* Fails if a file has become shorter: what was read is then not what it held. */
void input_verify(const struct input *in);

/* Member i of an input of many as an input of its own, to be closed before the other. */
void input_member(struct input *in, const struct input_options *options, int64_t i, struct input *member);

/* The index of the member that is called so; fails if there is none. */
int64_t input_find(const struct input *in, const char *name);

/* Has a name out of a file what a line of text must not have? */
bool has_control(const char *name);

/* Elements of a shape, or −1 beyond 2^62. */
int64_t shape_size(int32_t ndim, const int64_t *shape);

/* npy.c: reads the header at the stream's start and sets dtype, shape, order. */
void npy_open(struct input *in, const struct input_options *options);

/* safetensors.c: reads the header at the stream's start and sets the members. */
void safetensors_open(struct input *in);
void safetensors_close(struct input *in);
_Noreturn void safetensors_fail_rest(const struct input *in); /* there is more than the tensors */

/* npz.c: lists the members; opens one as a stream; reads on, or fails. */
void npz_open(struct input *in);
void npz_close(struct input *in);
struct zip_file *npz_member(struct input *in, int64_t i);
size_t npz_read(const struct stream *stream, void *to, size_t size);
void npz_close_member(struct stream *stream);

/* text.c */
void text_open(struct input *in, const struct input_options *options);
void text_close(struct text *text);
int64_t text_read(struct input *in, void *elements, int64_t capacity);
/* The table's shape once all is read; fails for a table without rows. */
void text_shape(struct input *in);

struct decimal;
/* The next number as it is written, valid until the next call; false at the end. */
bool text_next(struct text *text, struct decimal *decimal, const char **token, size_t *length);
/* Exits with a sentence about that number and where it stands. */
_Noreturn void text_fail(struct text *text, const char *token, size_t length, const char *what);

#endif
