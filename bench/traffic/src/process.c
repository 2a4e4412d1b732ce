// SPDX-License-Identifier: Apache-2.0
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "load/load.h"

static void print_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text < ' ')
			printf("\\u%04x", *text);
		else
			putchar(*text);
	}
	putchar('"');
}

void fail(const char *format, ...)
{
	va_list arguments;
	char text[512];

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	printf("{\"error\": ");
	print_string(text);
	printf("}\n");
	fflush(stdout);
	_exit(1);
}

void report(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	if (fflush(stdout))
		_exit(1);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

void report_clock(const char *event)
{
	char boot[64] = "";
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!file || !fgets(boot, sizeof(boot), file))
		fail("/proc/sys/kernel/random/boot_id: %s", strerror(errno));
	fclose(file);
	boot[strcspn(boot, "\n")] = '\0';
	report("{\"%s\": true, \"boot\": \"%s\", \"monotonic_ns\": %" PRIu64
	       ", \"realtime_ns\": %" PRIu64 "}",
	       event, boot, clock_ns(CLOCK_MONOTONIC),
	       clock_ns(CLOCK_REALTIME));
}

enum input read_line(char *line, size_t length, int timeout_ms)
{
	static char kept[4096];
	static size_t used;

	for (;;) {
		struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
		char *end = memchr(kept, '\n', used);
		ssize_t got;
		int ready;

		if (end) {
			*end = '\0';
			snprintf(line, length, "%s", kept);
			used -= end + 1 - kept;
			memmove(kept, end + 1, used);
			return INPUT_LINE;
		}
		if (used == sizeof(kept))
			fail("a line of more than %zu bytes", sizeof(kept));
		ready = poll(&input, 1, timeout_ms);
		if (ready < 0 && errno == EINTR)
			continue;
		if (!ready)
			return INPUT_NONE;
		got = read(STDIN_FILENO, kept + used, sizeof(kept) - used);
		if (got <= 0)
			return INPUT_END;
		used += got;
	}
}

struct content read_file(const char *path)
{
	struct content content = {};
	struct stat status;
	int file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0 || fstat(file, &status))
		fail("%s: %s", path, strerror(errno));
	if (!status.st_size)
		fail("%s: empty", path);
	content.at =
		mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (content.at == MAP_FAILED)
		fail("%s: %s", path, strerror(errno));
	content.end = content.at + status.st_size;
	close(file);
	return content;
}

const void *take(struct content *content, size_t length)
{
	const void *at = content->at;

	if ((size_t)(content->end - content->at) < length)
		fail("the file of settings is too short, by %zu bytes: of "
		     "another version?",
		     length - (content->end - content->at));
	content->at += length;
	return at;
}

void write_all(FILE *file, const void *data, size_t length)
{
	if (fwrite(data, 1, length, file) != length)
		fail("the result: %s", strerror(errno));
}

void load_or_fail(int status, const char *what)
{
	const char *message = first_libbpf_message();

	if (status)
		fail("%s: %s%s%s", what, strerror(abs(status)),
		     message[0] ? ": " : "", message);
}

int possible_cpus(void)
{
	int cpus = libbpf_num_possible_cpus();

	load_or_fail(cpus < 0 ? cpus : 0, "number of processors");
	return cpus;
}

void set_entries(struct bpf_map *map, uint64_t entries)
{
	if (entries > UINT32_MAX)
		fail("map %s: %" PRIu64 " entries", bpf_map__name(map),
		     entries);
	load_or_fail(bpf_map__set_max_entries(map, entries ? entries : 1),
		     bpf_map__name(map));
}

void fill_map(int map, uint32_t key, const void *value)
{
	if (bpf_map_update_elem(map, &key, value, BPF_ANY))
		fail("element %u of a map: %s", key, strerror(errno));
}
