// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "state.h"

int find_port(struct oxh_host *host, const uint8_t id[16])
{
	struct host_port *ports = ports_of(host);

	for (uint32_t i = 0; i < host->count[MAP_PORTS]; i++)
		if (ports[i].flags & HOST_PORT_USED &&
		    !memcmp(ports[i].id, id, sizeof(ports[i].id)))
			return i;
	return -ENOENT;
}

int bits_of(const struct oxh_network *network)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	bool v4 = !memcmp(network->address.bytes, mapped, sizeof(mapped));

	if (network->length > (v4 ? 32 : 128))
		return -EINVAL;
	return network->length + (v4 ? 96 : 0);
}

void mask_address(uint8_t *address, int bits)
{
	for (int i = 0; i < 16; i++) {
		int left = bits - 8 * i;

		if (left < 8)
			address[i] &= left > 0 ? 0xff << (8 - left) : 0;
	}
}

bool is_v4(const struct ip_address *address)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(address->bytes, mapped, sizeof(mapped));
}
