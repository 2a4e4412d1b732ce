/* SPDX-License-Identifier: Apache-2.0 */
/* The CRC of RFC 3720, from which QUIC server IDs of members follow. */
#ifndef OXP_CRC32C_H
#define OXP_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const uint8_t *bytes, size_t length);

#endif
