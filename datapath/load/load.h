/* SPDX-License-Identifier: Apache-2.0 */
/* Loading a skeleton's programs, and one text of why it failed: for the
 * library and for octavia-xdp-member. */
#ifndef OXP_LOAD_H
#define OXP_LOAD_H

#include <stdbool.h>
#include <stddef.h>

struct bpf_map;
struct bpf_object;
struct bpf_object_skeleton;

/* libbpf says why a load failed in messages only. From here on they are kept
 * and none is printed. */
void catch_libbpf_messages(void);

/* This thread's first warning since it forgot them; "": none. The first one is
 * the cause, what follows are its consequences. */
const char *first_libbpf_message(void);

void forget_libbpf_messages(void);

#define LOAD_TEXT 512

struct load {
	const char *what; /* that is loaded, for the text of a failure */
	bool traces;      /* other programs: BTF is opened by its id */
};

/* The map of that name, or the section .data.<name>, which is a map of one
 * element whose place a program need not look up; NULL: neither. */
struct bpf_map *find_map(const struct bpf_object *object, const char *name);

/*
 * Loads an opened skeleton. NULL: opening it failed, as errno says. `status`
 * is that of its preparation, and a failure of that is one of the load.
 * Returns 0, or a negative errno with the reason in the `length` bytes of
 * `text`; it names what is loaded, what libbpf or the kernel said or the
 * capabilities that this thread lacks, and the error. The skeleton stays the
 * caller's.
 */
int load_skeleton(const struct load *load, struct bpf_object_skeleton *skeleton,
		  int status, char *text, size_t length);

#endif
