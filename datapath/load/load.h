/* SPDX-License-Identifier: Apache-2.0 */
/* Loading a skeleton's programs and describing failures, for the library and
 * for octavia-xdp-member. */
#ifndef OXP_LOAD_H
#define OXP_LOAD_H

#include <stdbool.h>
#include <stddef.h>

struct bpf_map;
struct bpf_object;
struct bpf_object_skeleton;

/* libbpf gives the reason of a failed load only in messages. From now on keep
 * them instead of printing. */
void catch_libbpf_messages(void);

/* Returns this thread's first warning since forget_libbpf_messages(), or "".
 * The first one is the cause, later ones are consequences. */
const char *first_libbpf_message(void);

void forget_libbpf_messages(void);

#define LOAD_TEXT 512

struct load {
	const char *what; /* what is loaded, for error texts */
	bool traces;      /* traces other programs, so BTF is opened by id */
};

/* Returns the map of that name, or the section .data.<name>: a map of one
 * element whose address a program knows without a lookup. NULL: neither. */
struct bpf_map *find_map(const struct bpf_object *object, const char *name);

/*
 * Load an opened skeleton. NULL: opening it failed, see errno. `status` is the
 * result of preparing it; a failure there counts as one of loading. Returns 0,
 * or a negative errno with the reason in the `length` bytes of `text`: what was
 * loaded, the message of libbpf or the kernel or the missing capabilities, and
 * the error. The caller keeps the skeleton.
 */
int load_skeleton(const struct load *load, struct bpf_object_skeleton *skeleton,
		  int status, char *text, size_t length);

#endif
