/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_CAPABILITIES_H
#define OXP_CAPABILITIES_H

#include <stdint.h>

/* Sets of capabilities, as bits. CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and
 * CAP_SYS_ADMIN have names here. */
#define CAPABILITY(number) (UINT64_C(1) << (number))

/* Returns those of `wanted` that are not effective in this thread. */
uint64_t missing_capabilities(uint64_t wanted);

#define CAPABILITIES_TEXT 96

/* For example "CAP_BPF and CAP_PERFMON are missing". */
const char *missing_text(uint64_t missing, char text[CAPABILITIES_TEXT]);

#endif
