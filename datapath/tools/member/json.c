// SPDX-License-Identifier: Apache-2.0
/* JSON on standard output: the commands' text output for programs. */
#include <inttypes.h>
#include <stdio.h>

#include "tool.h"

static bool first = true;

static void print_quoted(const char *text)
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

static void begin_value(const char *name)
{
	if (!first)
		putchar(',');
	first = false;
	if (name) {
		print_quoted(name);
		putchar(':');
	}
}

void json_open(char bracket, const char *name)
{
	begin_value(name);
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
	begin_value(name);
	print_quoted(value);
}

void json_number(const char *name, uint64_t value)
{
	begin_value(name);
	printf("%" PRIu64, value);
}

void json_bool(const char *name, bool value)
{
	begin_value(name);
	fputs(value ? "true" : "false", stdout);
}
