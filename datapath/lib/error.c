// SPDX-License-Identifier: Apache-2.0
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "state.h"

int failure(char *error, int status, const char *format, ...)
{
	va_list arguments;
	size_t used;

	if (!error)
		return status;
	va_start(arguments, format);
	vsnprintf(error, OXP_ERROR_LENGTH, format, arguments);
	va_end(arguments);
	used = strlen(error);
	snprintf(error + used, OXP_ERROR_LENGTH - used, ": %s",
		 strerror(-status));
	return status;
}

void add_failure(char *error, const char *format, ...)
{
	va_list arguments;
	size_t used;

	if (!error)
		return;
	strncat(error, "; ", OXP_ERROR_LENGTH - 1 - strlen(error));
	used = strlen(error);
	va_start(arguments, format);
	vsnprintf(error + used, OXP_ERROR_LENGTH - used, format, arguments);
	va_end(arguments);
}
