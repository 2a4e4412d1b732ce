/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_ERROR_H
#define OXP_ERROR_H

#include <stdbool.h>
#include <stdint.h>

int failure(char *error, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Append a further failure to the text in `error`. */
void add_failure(char *error, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
