/* SPDX-License-Identifier: Apache-2.0 */
/* Common to the commands: files, lines of JSON, errors. */
#ifndef OXT_PROCESS_H
#define OXT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <bpf/libbpf.h>

int send_main(int count, char **arguments);
int receive_main(int count, char **arguments);

/* Prints {"error": text} and ends with 1. */
_Noreturn void fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* Prints and flushes a line of JSON. */
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports "boot" (id of the kernel), "monotonic_ns" and "realtime_ns", which
 * tell whether two hosts share a clock and whether it was set. */
void report_clock(const char *event);

/* The result of reading a line of standard input, without its end: with a
 * non-negative timeout, there may be none yet. */
enum input {
	INPUT_LINE,
	INPUT_NONE,
	INPUT_END
};
enum input read_line(char *line, size_t length, int timeout_ms);

struct content {
	const uint8_t *at, *end;
};

struct content read_file(const char *path);
/* Fails if the file is too short. */
const void *take(struct content *content, size_t length);

void write_all(FILE *file, const void *data, size_t length);

void load_or_fail(int status, const char *what);
int possible_cpus(void);
/* Sets the size of a map; fails with a message. */
void set_entries(struct bpf_map *map, uint64_t entries);
void fill_map(int map, uint32_t key, const void *value);

#endif
