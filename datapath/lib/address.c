// SPDX-License-Identifier: Apache-2.0
#include "address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

const uint8_t v4_mapped[12] = {[10] = 0xff, [11] = 0xff};

bool is_v4(const void *address)
{
	return !memcmp(address, v4_mapped, sizeof(v4_mapped));
}

bool is_zero(const void *address)
{
	static const uint8_t zeroes[16];
	const uint8_t *bytes = address;

	return !memcmp(bytes, zeroes, 16) ||
	       (is_v4(bytes) && !memcmp(bytes + 12, zeroes, 4));
}

const char *address_text(const void *address)
{
	static _Thread_local char text[INET6_ADDRSTRLEN];
	const uint8_t *bytes = address;

	if (is_v4(bytes))
		inet_ntop(AF_INET, bytes + 12, text, sizeof(text));
	else
		inet_ntop(AF_INET6, bytes, text, sizeof(text));
	return text;
}

const char *key_text(const void *vip, __be16 port, uint8_t protocol)
{
	static _Thread_local char text[INET6_ADDRSTRLEN + 48];

	snprintf(text, sizeof(text), "service %s port %u protocol %u",
		 address_text(vip), ntohs(port), protocol);
	return text;
}
