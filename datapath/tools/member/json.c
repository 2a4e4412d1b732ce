// SPDX-License-Identifier: Apache-2.0
/* JSON on standard output: what the commands say in text, for programs. */
#include <inttypes.h>
#include <stdio.h>

#include "tool.h"

static bool first = true;

static void quoted(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		unsigned char byte = *text;

		if (byte == '"' || byte == '\\')
			printf("\\%c", byte);
		else if (byte < 0x20)
			printf("\\u%04x", byte);
		else
			putchar(byte);
	}
	putchar('"');
}

static void begin(const char *name)
{
	if (!first)
		putchar(',');
	first = false;
	if (name) {
		quoted(name);
		putchar(':');
	}
}

void json_open(char bracket, const char *name)
{
	begin(name);
	putchar(bracket);
	first = true;
}

void json_close(char bracket)
{
	putchar(bracket);
	first = false;
}

void json_string(const char *name, const char *value)
{
	begin(name);
	quoted(value);
}

void json_number(const char *name, uint64_t value)
{
	begin(name);
	printf("%" PRIu64, value);
}

void json_bool(const char *name, bool value)
{
	begin(name);
	fputs(value ? "true" : "false", stdout);
}
