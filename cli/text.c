/* SPDX-License-Identifier: Apache-2.0
 *
 * Text as numbers: CSV with a delimiter, or runs of blanks between numbers. Fields that are plain
 * numbers take a fast path that never looks at a byte twice; everything else (quotes, unwanted
 * columns, errors, the window's edge) goes through next_field().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "input.h"
#include "number.h"

struct text {
  struct stream *stream;
  bool closed;    /* the input has ended, and its last line has a newline now */
  bool blanks;    /* fields are separated by runs of blanks */
  char delimiter; /* otherwise by this */
  bool empty_is_nan;
  int64_t wanted;   /* the one field of a line that is read, from 0; −1: all */
  int64_t field;    /* index of the next field in its line */
  int64_t line;     /* from 1 */
  uint64_t line_at; /* position of the line's first byte in the input */
  uint64_t previous_line_at;
  bool table;
  int64_t width, rows; /* of a table */
  char *unquoted;      /* the last quoted field that held doubled quotes */
};

struct field {
  const char *at; /* where it begins in the window: with doubled quotes, `text` is a copy */
  const char *text;
  size_t length;
  const char *next; /* the delimiter or newline behind it */
  bool quoted;
};

/* ---- messages ------------------------------------------------------------------------------ */

static const char *excerpt(const char *token, size_t length, char shown[64]) {
  size_t n = length < 40 ? length : 40;
  for (size_t i = 0; i < n; i++) shown[i] = (unsigned char)token[i] < ' ' || token[i] == 127 ? '?' : token[i];
  strcpy(shown + n, n < length ? "..." : "");
  return shown;
}

static _Noreturn void fail_at(const struct text *t, const char *at, const char *sentence) {
  uint64_t position = t->stream->position + (uint64_t)(at - t->stream->window);
  fail(EXIT_INPUT, "%s:%lld:%llu: %s", t->stream->name, (long long)t->line,
       (unsigned long long)(position - t->line_at + 1), sentence);
}

static _Noreturn void fail_field(const struct text *t, const struct field *f, const char *what) {
  char shown[64], sentence[160];
  snprintf(sentence, sizeof sentence, "'%s' %s", excerpt(f->text, f->length, shown), what);
  fail_at(t, f->at, sentence);
}

void text_fail(struct text *t, const char *token, size_t length, const char *what) {
  if (t->field == 0) { /* the number was the last of its line */
    t->line--;
    t->line_at = t->previous_line_at;
  }
  fail_field(t, &(struct field){.at = token, .text = token, .length = length}, what);
}

/* ---- fields -------------------------------------------------------------------------------- */

static inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static const char *skip_blanks(const struct text *t, const char *p) {
  while (is_blank(*p) && (t->blanks || *p != t->delimiter)) p++;
  return p;
}

static bool ends_field(const struct text *t, char c) {
  return c == '\n' || (t->blanks ? is_blank(c) : c == t->delimiter);
}

/* Without branches, so that a loop over bytes becomes one over vectors. */
static inline unsigned char is_control(unsigned char c) {
  return (unsigned char)(((c < ' ') & (c != '\t') & (c != '\n') & (c != '\r')) | (c == 127));
}

/* Refuses what is no text (compressed, UTF-16, an array without its suffix) among the bytes behind `from`
 * before a stray word in it can pass for a header or a number. */
static void require_text(struct text *t, size_t from) {
  const struct stream *s = t->stream;
  unsigned char found = 0;
  for (size_t i = from; i < s->end; i++) found |= is_control((unsigned char)s->window[i]);
  if (!found) return;
  const char *p = s->window + s->begin;
  for (; p < s->window + from || !is_control((unsigned char)*p); p++) {
    if (*p != '\n') continue;
    t->line++;
    t->line_at = s->position + (uint64_t)(p + 1 - s->window);
  }
  char sentence[64];
  snprintf(sentence, sizeof sentence, "not text: a byte 0x%02x", (unsigned char)*p);
  fail_at(t, p, sentence);
}

/* More bytes behind what is there. At the end of the input, once, an unfinished line gets its newline
 * (into the slack) and another look. */
static bool refill(struct text *t) {
  struct stream *s = t->stream;
  if (t->closed) return false;
  size_t unread = s->end - s->begin;
  if (stream_more(s)) {
    require_text(t, unread);
    return true;
  }
  if (!s->ended) fail_at(t, s->window + s->begin, "a field is longer than 1 MiB");
  t->closed = true;
  if (s->end == s->begin && t->field == 0) return false;
  if (s->end == s->begin || s->window[s->end - 1] != '\n') s->window[s->end++] = '\n';
  return true;
}

/* The field that starts at p, or false if it does not end in the window. */
static bool find_field(struct text *t, const char *p, struct field *f) {
  const char *end = t->stream->window + t->stream->end;
  p = skip_blanks(t, p);
  if (*p == '"') {
    const char *from = ++p;
    bool doubled = false;
    while ((p = memchr(p, '"', (size_t)(end - p))) && p + 1 < end && p[1] == '"') {
      doubled = true;
      p += 2;
    }
    if (!p || p + 1 >= end) {
      if (t->closed) fail_at(t, from - 1, "a quote is never closed");
      return false;
    }
    *f = (struct field){from, from, (size_t)(p - from), skip_blanks(t, p + 1), true};
    if (f->next >= end) return false;
    if (!ends_field(t, *f->next) && !(t->blanks && f->next > p + 1))
      fail_at(t, f->next, "a quoted field is followed by something else than a delimiter");
    if (doubled) {
      t->unquoted = reallocate(t->unquoted, f->length);
      size_t length = 0;
      for (const char *q = from; q < p; q += *q == '"' ? 2 : 1) t->unquoted[length++] = *q;
      f->text = t->unquoted;
      f->length = length;
    }
    return true;
  }
  const char *q = p;
  while (q < end && !ends_field(t, *q)) q++;
  if (q == end) return false;
  const char *last = q;
  while (last > p && is_blank(last[-1])) last--;
  *f = (struct field){p, p, (size_t)(last - p), q, false};
  if (t->blanks) f->next = skip_blanks(t, q);
  if (f->next == end) return false;
  return true;
}

/* Steps behind the field that ends at `next`, where its delimiter or its line's newline is. */
static inline void step(struct text *t, const char *next) {
  struct stream *s = t->stream;
  t->field++;
  if (*next != '\n') {
    s->begin = (size_t)(next - s->window) + !t->blanks;
    return;
  }
  if (t->wanted >= t->field) {
    char sentence[96];
    snprintf(sentence, sizeof sentence, "the line has %lld fields, so no column %lld", (long long)t->field,
             (long long)t->wanted + 1);
    fail_at(t, next, sentence);
  }
  if (t->table) {
    if (t->width < 0) t->width = t->field;
    if (t->width != t->field) {
      char sentence[96];
      snprintf(sentence, sizeof sentence, "the line has %lld fields where those above have %lld",
               (long long)t->field, (long long)t->width);
      fail_at(t, next, sentence);
    }
    t->rows++;
  }
  s->begin = (size_t)(next - s->window) + 1;
  t->line++;
  t->previous_line_at = t->line_at;
  t->line_at = s->position + s->begin;
  t->field = 0;
}

/* The same, for any field: newlines inside quotes count as lines too. */
static void step_field(struct text *t, const struct field *f) {
  struct stream *s = t->stream;
  const char *p = s->window + s->begin;
  while (f->quoted && (p = memchr(p, '\n', (size_t)(f->next - p)))) {
    t->line++;
    t->line_at = s->position + (uint64_t)(++p - s->window);
  }
  step(t, f->next);
}

/* Goes to the next line without looking at its fields; false at the end of the input. */
static bool skip_line(struct text *t) {
  struct stream *s = t->stream;
  for (;;) {
    const char *p = s->window + s->begin, *newline = memchr(p, '\n', s->end - s->begin);
    if (newline) {
      s->begin = (size_t)(newline - s->window) + 1;
      t->line++;
      t->line_at = s->position + s->begin;
      t->field = 0;
      return true;
    }
    s->begin = s->end;
    if (!refill(t)) return false;
  }
}

/* To the start of a line that has fields: blank lines and lines that begin with # have none. False at
 * the end of the input. */
static bool find_line(struct text *t) {
  struct stream *s = t->stream;
  for (;;) {
    const char *p = s->window + s->begin, *end = s->window + s->end;
    while (is_blank(*p) && (t->blanks || *p != t->delimiter)) p++;
    if (p == end) {
      s->begin = s->end; /* any number of blanks */
      if (!refill(t)) return false;
    } else if (*p == '#' || *p == '\n') {
      if (!skip_line(t)) return false;
    } else {
      return true;
    }
  }
}

/* The next field, any of its line; false at the end of the input. */
static bool next_field(struct text *t, struct field *f) {
  struct stream *s = t->stream;
  if (t->field == 0 && !find_line(t)) return false;
  while (!find_field(t, s->window + s->begin, f))
    if (!refill(t)) return false;
  return true;
}

/* To the next line from behind the wanted column: quotes may hide newlines, so a line with quotes is walked
 * by its fields. */
static void finish_line(struct text *t) {
  struct stream *s = t->stream;
  struct field f;
  while (t->field > 0) {
    const char *p = s->window + s->begin, *newline = memchr(p, '\n', s->end - s->begin);
    if (newline && !memchr(p, '"', (size_t)(newline - p))) {
      skip_line(t);
      return;
    }
    if (!next_field(t, &f)) return;
    step_field(t, &f);
  }
}

static bool field_number(const struct text *t, const struct field *f, struct decimal *d) {
  return f->text != t->unquoted && decimal_scan(f->text, d) == f->text + f->length;
}

/* The next number that is wanted, behind which it steps; false at the end of the input. */
static inline bool next_number(struct text *t, struct decimal *d, struct field *f) {
  struct stream *s = t->stream;
  if (t->wanted >= 0 && t->field > t->wanted) finish_line(t);
  while (t->wanted >= 0 && t->field < t->wanted) {
    if (!next_field(t, f)) return false;
    step_field(t, f);
  }
  const char *p = skip_blanks(t, s->window + s->begin), *end = decimal_scan(p, d);
  if (end) {
    const char *next = skip_blanks(t, end);
    if (next < s->window + s->end && (ends_field(t, *next) || (t->blanks && next > end))) {
      *f = (struct field){p, p, (size_t)(end - p), next, false};
      step(t, next);
      return true;
    }
  }
  if (!next_field(t, f)) return false;
  if (f->length == 0 && t->empty_is_nan)
    *d = (struct decimal){.kind = DECIMAL_NAN};
  else if (f->length == 0)
    fail_at(t, f->at, "the field is empty (--skip-nan leaves empty fields out)");
  else if (!field_number(t, f, d))
    fail_field(t, f, "is not a number");
  step_field(t, f);
  return true;
}

bool text_next(struct text *t, struct decimal *d, const char **token, size_t *length) {
  struct field f;
  if (!next_number(t, d, &f)) return false;
  *token = f.text;
  *length = f.length;
  return true;
}

int64_t text_read(struct input *in, void *elements, int64_t capacity) {
  struct text *t = in->text;
  sumac_dtype dtype = in->dtype;
  size_t item = dtype_size(dtype);
  char *out = elements;
  int64_t count = 0;
  for (struct decimal d; count < capacity; count++, out += item) {
    struct field f;
    if (!next_number(t, &d, &f)) break;
    enum number_status status = number_store(dtype, &d, f.text, f.length, out);
    if (status == NUMBER_OK) continue;
    char what[64];
    snprintf(what, sizeof what, status == NUMBER_RANGE ? "does not fit in %s" : "is not whole, as %s must be",
             sumac_dtype_name(dtype));
    text_fail(t, f.text, f.length, what);
  }
  in->done += count;
  in->n = in->done;
  return count;
}

void text_shape(struct input *in) {
  struct text *t = in->text;
  if (!t->table) {
    in->shape[0] = in->done;
    return;
  }
  if (t->rows == 0) fail(EXIT_INPUT, "%s: no rows, so no axes", in->stream.name);
  in->shape[0] = t->rows;
  in->shape[1] = t->width;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* What separates the fields of a line: the first of these that it has outside quotes, or blanks. */
static char detect_delimiter(const char *p, const char *end) {
  static const char candidates[] = {',', '\t', ';'};
  bool seen[sizeof candidates] = {false}, quoted = false;
  for (; p < end && (*p != '\n' || quoted); p++) {
    if (*p == '"') quoted = !quoted;
    for (size_t i = 0; i < sizeof candidates; i++) seen[i] |= !quoted && *p == candidates[i];
  }
  for (size_t i = 0; i < sizeof candidates; i++)
    if (seen[i]) return candidates[i];
  return 0;
}

static bool is_letter(char c) { return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_'; }

/* Is it one of the words that stand for "no value"? */
static bool is_missing(const struct field *f) {
  static const char *const words[] = {"na", "n/a", "n.a.", "null", "none", "nil"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (f->length == strlen(words[i]) && strncasecmp(f->text, words[i], f->length) == 0) return true;
  bool nan = f->length >= 3 && strncasecmp(f->text, "nan", 3) == 0; /* nan(0x8) */
  return nan && (f->length == 3 || !is_letter(f->text[3]));
}

/* Is it a number but for letters in the place of digits: O.5, l2? */
static bool is_misspelt_number(const struct field *f) {
  char text[64] = {0}; /* and zeros behind it, as decimal_scan() wants */
  struct decimal d;
  bool digits = false;
  if (f->length > sizeof text - 16) return false;
  for (size_t i = 0; i < f->length; i++) {
    char c = f->text[i];
    digits = digits || (c >= '0' && c <= '9');
    text[i] = (char)(c == 'O' || c == 'o' ? '0' : c == 'I' || c == 'l' ? '1' : c);
  }
  return digits && decimal_scan(text, &d) == text + f->length;
}

/* Does it look like the name of a column? Beyond ASCII anything may stand, but not in front: a minus sign
 * or a currency is there too. What is quoted is meant as words. */
static bool is_name(const struct field *f) {
  if (!is_letter(*f->text)) return false;
  for (size_t i = 0; i < f->length && !f->quoted; i++) {
    char c = f->text[i];
    if (!is_letter(c) && (unsigned char)c < 128 && !strchr("0123456789. -/()%", c)) return false;
  }
  return true;
}

/* Why a field that is no number cannot be a header's either; NULL if it can. */
static const char *no_header(const struct field *f) {
  if (is_missing(f)) return "stands for a missing value: it is neither a number nor the name of a column";
  if (is_misspelt_number(f)) return "has a letter where a number has a digit (--header yes if it is a name)";
  if (!is_name(f)) return "is neither a number nor like the name of a column (--header yes if it is one)";
  return NULL;
}

/* Is the first line a header? Yes if the wanted field, or else every field that is not empty, is a name
 * (`name` is then the first one), and no if there is a number. Otherwise there is no telling. */
static bool detect_header(struct text *t, struct field *name) {
  struct stream *s = t->stream;
  struct field f;
  const char *fault = NULL, *found = NULL; /* where the name begins */
  int64_t index = 0;
  for (const char *p = s->window + s->begin; find_field(t, p, &f); p = f.next + !t->blanks, index++) {
    struct decimal d;
    if (f.length > 0 && (t->wanted < 0 || t->wanted == index)) {
      if (field_number(t, &f, &d)) return false;
      const char *why = no_header(&f);
      if (!found || (why && !fault)) {
        found = p;
        fault = why;
      }
    }
    if (*f.next == '\n') break;
  }
  if (!found) return false;
  find_field(t, found, name); /* again: the text of a field may be a copy that the next one has overwritten */
  if (fault) fail_field(t, name, fault);
  return true;
}

/* Steps over the header line; returns the index of the field called `name`, −1 if name is NULL. */
static int64_t read_header(struct text *t, const char *name) {
  int64_t found = -1;
  struct field f;
  do {
    if (!next_field(t, &f)) break;
    if (name && f.length == strlen(name) && memcmp(f.text, name, f.length) == 0) {
      if (found >= 0) fail_field(t, &f, "is the name of two columns");
      found = t->field;
    }
    step_field(t, &f);
  } while (t->field > 0);
  if (name && found < 0) fail(EXIT_INPUT, "%s: no column is called '%s'", t->stream->name, name);
  return found;
}

void text_open(struct input *in, const struct input_options *o) {
  struct text *t = in->text = allocate(sizeof *t);
  *t = (struct text){.stream = &in->stream, .blanks = true, .wanted = -1, .line = 1, .width = -1};
  struct stream *s = t->stream;
  in->dtype = o->has_dtype ? o->dtype : SUMAC_F64;
  in->ndim = o->table ? 2 : 1;
  if (stream_need(s, 3) && memcmp(s->window, "\xef\xbb\xbf", 3) == 0) {
    s->begin += 3;
    t->line_at = 3;
  }
  require_text(t, s->begin);
  const char *name = NULL;
  if (o->column) {
    char *end;
    long long column = strtoll(o->column, &end, 10);
    if (end == o->column || *end)
      name = o->column;
    else if (column < 1)
      fail(EXIT_USAGE, "--column counts from 1");
    else
      t->wanted = column - 1;
  }
  t->empty_is_nan = o->empty_is_nan;
  if (!find_line(t)) {
    if (name) fail(EXIT_INPUT, "%s: no column is called '%s'", s->name, name);
    return;
  }
  /* As much of the first line as the window has room for decides. */
  while (!memchr(s->window + s->begin, '\n', s->end - s->begin) && s->end - s->begin < STREAM_CAPACITY)
    if (!refill(t)) break;
  char delimiter = o->delimiter;
  if (!delimiter) delimiter = detect_delimiter(s->window + s->begin, s->window + s->end);
  t->blanks = delimiter == 0 || delimiter == ' ';
  t->delimiter = delimiter;
  struct field first;
  bool detected = !name && o->header == HEADER_AUTO && detect_header(t, &first);
  if (name || o->header == HEADER_YES || detected) {
    struct text header = *t; /* for a message that is due when the window has moved on */
    char shown[64];
    uint64_t at = detected ? s->position + (uint64_t)(first.at - s->window) : 0;
    if (detected) excerpt(first.text, first.length, shown);
    t->wanted = -1;
    int64_t found = read_header(t, name);
    t->wanted = name ? found : header.wanted;
    if (detected && !find_line(t))
      fail(EXIT_INPUT, "%s:%lld:%llu: '%s' is not a number, and as a header has no line below it", s->name,
           (long long)header.line, (unsigned long long)(at - header.line_at + 1), shown);
  }
  t->table = o->table;
}

void text_close(struct text *t) {
  free(t->unquoted);
  free(t);
}
