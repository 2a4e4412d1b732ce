/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_ADDRESS_H
#define OXP_ADDRESS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>

extern const uint8_t v4_mapped[12]; /* ::ffff:0:0/96 */

bool is_v4(const void *address);

bool is_zero(const void *address); /* :: or ::ffff:0.0.0.0 */

/* Format an address, or the key of a service, in a thread-local buffer. */
const char *address_text(const void *address);

const char *key_text(const void *vip, __be16 port, uint8_t protocol);

#endif
