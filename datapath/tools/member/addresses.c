// SPDX-License-Identifier: Apache-2.0
/* VIPs on lo. The kernel records who added an address: those that others added
 * are never removed. */
#include <net/if.h>
#include <string.h>

#include "tool.h"

static struct host_address all[ADDRESSES_MAX];

static bool wants_vip(const struct settings *settings,
		      const struct ip_address *vip)
{
	return settings && !(settings->flags & NO_ADDRESS) &&
	       has_vip(settings, vip);
}

static void keep_wanted(bool *sweep, int count, const struct settings *settings)
{
	for (int i = 0; i < count; i++)
		if (wants_vip(settings, &all[i].address))
			sweep[i] = false;
}

int sweep_addresses(unsigned int except, const struct settings *settings)
{
	bool sweep[ADDRESSES_MAX] = {};
	struct if_nameindex *interfaces, *one;
	struct installed installed;
	struct interface other;
	int count, status = 0;

	count = list_addresses(all, ADDRESSES_MAX);
	if (count < 0)
		return -1;
	for (int i = 0; i < count; i++)
		sweep[i] = all[i].ours;
	keep_wanted(sweep, count, settings);
	interfaces = if_nameindex();
	for (one = interfaces; one && one->if_index; one++) {
		if (one->if_index == except ||
		    find_interface(one->if_name, &other))
			continue;
		if (find_installed(&other, &installed)) {
			status = -1;
			break;
		}
		if (installed.have_record)
			keep_wanted(sweep, count, &installed.record.settings);
		close_installed(&installed);
	}
	if (interfaces)
		if_freenameindex(interfaces);
	for (int i = 0; i < count && !status; i++)
		if (sweep[i])
			status = delete_vip_address(&all[i].address);
	return status;
}

int put_addresses(const struct settings *settings)
{
	int count, status = 0;

	if (settings->flags & NO_ADDRESS)
		return 0;
	count = list_addresses(all, ADDRESSES_MAX);
	if (count < 0)
		return -1;
	for (__u32 i = 0; i < settings->vips && !status; i++) {
		bool exists = false;

		for (int j = 0; j < count; j++)
			exists |= !memcmp(&all[j].address, &settings->vip[i],
					  sizeof(settings->vip[i]));
		if (!exists)
			status = add_vip_address(&settings->vip[i]);
	}
	return status;
}
