/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of a program, which list themselves where they are defined:
 *
 *	PLAIN_TEST(test_something_happens)
 *	{
 *		assert_true(...);
 *	}
 *
 *	RUN_TESTS(enter_namespace, NULL)
 */
#ifndef OXP_TESTS_H
#define OXP_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* cmocka skips elements without a name. */
static struct CMUnitTest tests[64] __attribute__((unused));

/* `more` ends with an element without a name. */
static inline void list_tests(const struct CMUnitTest *more)
{
	const size_t most = sizeof(tests) / sizeof(*tests);
	size_t count = 0;

	while (count < most && tests[count].name)
		count++;
	for (; more->name; more++) {
		if (count == most)
			abort();
		tests[count++] = *more;
	}
}

/* A function that is run for each of these elements. */
#define DEFINE_TEST(function, ...)                                             \
	static void function(void **state);                                    \
	static void __attribute__((constructor)) list_##function(void)         \
	{                                                                      \
		list_tests((const struct CMUnitTest[]){__VA_ARGS__, {}});      \
	}                                                                      \
	static void function(void **state __attribute__((unused)))

#define TEST_WITH(name, set_up, tear_down)                                     \
	DEFINE_TEST(name, {#name, name, set_up, tear_down, NULL})

/* The library's call returns 0; otherwise say why it does not. */
#define assert_ok(call)                                                        \
	do {                                                                   \
		if (call)                                                      \
			fail_msg("%s: %s", #call, error);                      \
	} while (0)

#define PLAIN_TEST(name) TEST_WITH(name, NULL, NULL)

/* The program's main(); functions before the first and after the last test, or
 * NULL. */
#define RUN_TESTS(begin_all, end_all)                                          \
	int main(void)                                                         \
	{                                                                      \
		return cmocka_run_group_tests(tests, begin_all, end_all);      \
	}

#endif
