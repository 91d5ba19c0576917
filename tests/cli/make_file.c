/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the files that the command's tests read, every part of which can be wrong on purpose.
 *   make_file elements TYPE VALUE...   binary elements; TYPE: u1 u2 u4 u8 i1 i2 i4 i8 f4 f8, > before it:
 *                                      big-endian; VALUE may be xN: the value before it N times in all
 *   make_file header [-v VERSION] [-l LENGTH] [-a ALIGNMENT] DICT
 *   make_file zip [-0] ARCHIVE FILE...       deflated, or with -0 stored
 *   make_file shrink FILE SIZE COMMAND...   runs the command and cuts FILE down while the command reads
 *                                           it; exits as the command does
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zip.h>

static int usage(void) {
  fputs("make_file: see the top of make_file.c\n", stderr);
  return 99;
}

static void put(uint64_t bits, int size, int big) {
  for (int i = 0; i < size; i++) putchar((int)(bits >> 8 * (big ? size - 1 - i : i) & 0xff));
}

static int elements(int argc, char **argv) {
  if (argc < 1) return usage();
  int big = argv[0][0] == '>', size = argv[0][big + 1] - '0';
  uint64_t bits = 0;
  for (int i = 1; i < argc; i++) {
    long long times = 1;
    if (argv[i][0] == 'x') {
      times = atoll(argv[i] + 1) - 1;
    } else if (argv[0][big] == 'f' && size == 8) {
      double v = strtod(argv[i], NULL);
      memcpy(&bits, &v, sizeof v);
    } else if (argv[0][big] == 'f') {
      float v = strtof(argv[i], NULL);
      uint32_t b;
      memcpy(&b, &v, sizeof v);
      bits = b;
    } else {
      bits = argv[i][0] == '-' ? (uint64_t)strtoll(argv[i], NULL, 0) : strtoull(argv[i], NULL, 0);
    }
    while (times-- > 0) put(bits, size, big);
  }
  return 0;
}

static int header(int argc, char **argv) {
  int version = 1, option;
  long long length = -1;
  size_t alignment = 64;
  while ((option = getopt(argc, argv, "v:l:a:")) != -1) {
    if (option == 'v')
      version = atoi(optarg);
    else if (option == 'l')
      length = atoll(optarg);
    else if (option == 'a')
      alignment = (size_t)atoi(optarg);
    else
      return usage();
  }
  if (optind != argc - 1) return usage();
  size_t lead = version == 1 ? 10 : 12, used = lead + strlen(argv[optind]) + 1;
  size_t padding = alignment ? (alignment - used % alignment) % alignment : 0;
  printf("%cNUMPY", 0x93);
  put((uint64_t)version, 2, 0);
  put(length >= 0 ? (uint64_t)length : used - lead + padding, version == 1 ? 2 : 4, 0);
  printf("%s%*s\n", argv[optind], (int)padding, "");
  return 0;
}

static int archive(int argc, char **argv) {
  int stored = argc > 0 && strcmp(argv[0], "-0") == 0, failed = 0;
  zip_t *zip = argc > stored ? zip_open(argv[stored], ZIP_CREATE | ZIP_TRUNCATE, NULL) : NULL;
  if (!zip) return usage();
  for (int i = stored + 1; i < argc; i++) {
    zip_source_t *source = zip_source_file(zip, argv[i], 0, 0);
    zip_int64_t at = zip_file_add(zip, argv[i], source, ZIP_FL_ENC_UTF_8);
    failed |=
        at < 0 || zip_set_file_compression(zip, (zip_uint64_t)at, stored ? ZIP_CM_STORE : ZIP_CM_DEFLATE, 0);
  }
  return zip_close(zip) || failed ? 94 : 0;
}

/* Is the file in the middle of being read: mapped, or at least this far read through a descriptor? */
static int is_being_read(pid_t child, const char *name) {
  char path[64], line[4400], target[4400];
  int found = 0;
  snprintf(path, sizeof path, "/proc/%d/maps", (int)child);
  FILE *file = fopen(path, "r");
  while (file && !found && fgets(line, sizeof line, file)) found = strstr(line, name) != NULL;
  if (file) fclose(file);
  for (int fd = 3; fd < 8 && !found; fd++) {
    long long position = 0;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)child, fd);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) continue;
    target[length] = 0;
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)child, fd);
    if (!strstr(target, name) || !(file = fopen(path, "r"))) continue;
    found = fscanf(file, "pos: %lld", &position) == 1 && position > 4 << 20;
    fclose(file);
  }
  return found;
}

static int shrink(int argc, char **argv) {
  if (argc < 3) return usage();
  pid_t child = fork();
  if (child == 0) {
    execvp(argv[2], argv + 2);
    _exit(98);
  }
  int status = 0;
  while (!is_being_read(child, argv[0]))
    if (waitpid(child, &status, WNOHANG) != 0) return 97; /* it ended before it could be disturbed */
  if (truncate(argv[0], atoll(argv[1])) != 0) return 96;
  if (waitpid(child, &status, 0) != child) return 95;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
  if (argc < 2) return usage();
  if (strcmp(argv[1], "elements") == 0) return elements(argc - 2, argv + 2);
  if (strcmp(argv[1], "header") == 0) return header(argc - 1, argv + 1);
  if (strcmp(argv[1], "zip") == 0) return archive(argc - 2, argv + 2);
  if (strcmp(argv[1], "shrink") == 0) return shrink(argc - 2, argv + 2);
  return usage();
}
