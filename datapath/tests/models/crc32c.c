// SPDX-License-Identifier: Apache-2.0
#include "crc32c.h"

/* Table-driven, while the library computes each bit. */
uint32_t crc32c(const uint8_t *bytes, size_t length)
{
	uint32_t table[256], crc = UINT32_MAX;

	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] =
				table[i] >> 1 ^ (table[i] & 1 ? 0x82f63b78 : 0);
	}
	while (length--)
		crc = table[(crc ^ *bytes++) & 255] ^ crc >> 8;
	return ~crc;
}
