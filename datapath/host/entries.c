// SPDX-License-Identifier: Apache-2.0
/* Entries, and the listeners by which packets from VMs find them. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "state.h"
#include "synchronize.h"

static struct host_listener_key listener_key(const struct host_entry *entry,
					     uint32_t ifindex)
{
	return (struct host_listener_key){
		.ifindex = ifindex,
		.port = entry->port,
		.protocol = entry->protocol,
		.fixed = entry->fixed,
	};
}

static bool shares_port(const struct host_entry *one,
			const struct host_entry *other)
{
	return one->used == HOST_ENTRY_USED &&
	       one->host_port == other->host_port && one->port == other->port &&
	       one->protocol == other->protocol &&
	       !memcmp(&one->fixed, &other->fixed, sizeof(one->fixed));
}

/* Writes the listener of this entry's port, from all entries in use and the one
 * that is being added at the place `being`, unless that is NONE. */
#define NONE UINT32_MAX
static int write_listener(struct oxh_host *host, const struct host_entry *entry,
			  uint32_t ifindex, uint32_t added)
{
	struct host_listener_key key = listener_key(entry, ifindex);
	struct host_listener listener = {};

	if (!ifindex)
		return 0;
	for (uint32_t i = host->count[MAP_ENTRIES]; i--;)
		if (i == added || shares_port(&entries_of(host)[i], entry)) {
			listener.place = i;
			listener.count++;
		}
	if (listener.count)
		return bpf_map_update_elem(host->map[MAP_LISTENERS], &key,
					   &listener, BPF_ANY)
			       ? -errno
			       : 0;
	return bpf_map_delete_elem(host->map[MAP_LISTENERS], &key) &&
			       errno != ENOENT
		       ? -errno
		       : 0;
}

int move_listeners(struct oxh_host *host, uint32_t host_port, uint32_t from,
		   uint32_t to, char *error)
{
	for (uint32_t i = 0; i < host->count[MAP_ENTRIES]; i++) {
		const struct host_entry *entry = &entries_of(host)[i];
		struct host_listener_key key = listener_key(entry, from);
		int status;

		if (entry->used != HOST_ENTRY_USED ||
		    entry->host_port != host_port)
			continue;
		status = write_listener(host, entry, to, NONE);
		if (status)
			return failure(error, status, "cannot move key %u",
				       entry->key);
		bpf_map_delete_elem(host->map[MAP_LISTENERS], &key);
	}
	return 0;
}

static int find_entry(struct oxh_host *host, uint32_t key)
{
	uint32_t place;

	return bpf_map_lookup_elem(host->map[MAP_KEYS], &key, &place)
		       ? -errno
		       : (int)place;
}

static int free_entry(struct oxh_host *host)
{
	for (uint32_t i = 0; i < host->count[MAP_ENTRIES]; i++)
		if (!entries_of(host)[i].used)
			return i;
	return -ENOSPC;
}

static int parse_entry(struct oxh_host *host, const struct oxh_entry *wanted,
		       struct host_entry *out, char *error)
{
	int host_port = find_port(host, wanted->port_id);

	if (host_port < 0)
		return failure(error, host_port, "key %u: no such port",
			       wanted->key);
	*out = (struct host_entry){
		.vip_port = htons(wanted->vip_port),
		.port = htons(wanted->port),
		.protocol = wanted->protocol,
		.used = HOST_ENTRY_GOING, /* until it is complete */
		.key = wanted->key,
		.host_port = host_port,
		.mss = wanted->mss,
		.reply_mtu = read_mtu(settings_of(host)->reply_ifindex),
	};
	memcpy(&out->vip, &wanted->vip, sizeof(out->vip));
	memcpy(&out->fixed, &wanted->fixed, sizeof(out->fixed));
	memcpy(out->macs, wanted->mac, 6);
	memcpy(out->macs + 6, wanted->gateway_mac, 6);
	if (!wanted->key || !wanted->vip_port || !wanted->port)
		return failure(error, -EINVAL,
			       "key %u, ports %u and %u: 0 is "
			       "none",
			       wanted->key, wanted->vip_port, wanted->port);
	if (wanted->protocol != IPPROTO_TCP &&
	    wanted->protocol != IPPROTO_UDP &&
	    (wanted->protocol != IPPROTO_SCTP || out->port != out->vip_port))
		return failure(error, -EPROTONOSUPPORT,
			       "key %u: protocol %u with ports %u and %u "
			       "(SCTP's ports are not rewritten)",
			       wanted->key, wanted->protocol, wanted->vip_port,
			       wanted->port);
	if (is_v4(&out->vip) != is_v4(&out->fixed))
		return failure(error, -EAFNOSUPPORT,
			       "key %u: VIP and member are of two families",
			       wanted->key);
	return 0;
}

/* Whether the fields that identify an entry are equal. */
static bool same_identity(const struct host_entry *one,
			  const struct host_entry *other)
{
	return shares_port(one, other) && one->vip_port == other->vip_port &&
	       !memcmp(&one->vip, &other->vip, sizeof(one->vip));
}

/* Refuses a second key for a listener at a member: flows belong to one key. */
static int check_duplicates(struct oxh_host *host,
			    const struct host_entry *wanted, char *error)
{
	for (uint32_t i = 0; i < host->count[MAP_ENTRIES]; i++) {
		const struct host_entry *entry = &entries_of(host)[i];

		if (entry->key != wanted->key && same_identity(entry, wanted))
			return failure(error, -EEXIST,
				       "key %u: the listener at this member "
				       "has key %u",
				       wanted->key, entry->key);
	}
	return 0;
}

static void clear_counters(struct oxh_host *host, uint32_t place)
{
	int cpus = libbpf_num_possible_cpus();
	struct host_counters *zeroes =
		calloc(cpus > 0 ? cpus : 1, sizeof(*zeroes));

	if (zeroes)
		bpf_map_update_elem(host->map[MAP_COUNTERS], &place, zeroes,
				    BPF_ANY);
	free(zeroes);
}

/* Ends a deletion: hides the entry from packets, waits until none uses it,
 * deletes its flows and frees its place. Can be repeated if interrupted. */
static int finish_deletion(struct oxh_host *host, uint32_t place, char *error)
{
	struct host_entry *entry = &entries_of(host)[place];
	int status;

	bpf_map_delete_elem(host->map[MAP_KEYS], &entry->key);
	status = write_listener(host, entry,
				ports_of(host)[entry->host_port].ifindex, NONE);
	if (!status)
		status = synchronize(NULL);
	if (status)
		return failure(error, status, "cannot delete key %u",
			       entry->key);
	forget_flows(host, place);
	memset(entry, 0, sizeof(*entry));
	return 0;
}

int delete_entry(struct oxh_host *host, uint32_t place, char *error)
{
	__atomic_store_n(&entries_of(host)[place].used, HOST_ENTRY_GOING,
			 __ATOMIC_RELEASE);
	return finish_deletion(host, place, error);
}

/* Ends interrupted deletions. */
static int finish_deletions(struct oxh_host *host, char *error)
{
	int status = 0;

	for (uint32_t i = 0; i < host->count[MAP_ENTRIES] && !status; i++)
		if (entries_of(host)[i].used == HOST_ENTRY_GOING)
			status = finish_deletion(host, i, error);
	return status;
}

static int add_entry(struct oxh_host *host, const struct host_entry *wanted,
		     char *error)
{
	int vacant = free_entry(host), status;
	struct host_port *port = &ports_of(host)[wanted->host_port];
	struct host_entry *entry;
	uint32_t place = vacant;

	if (vacant < 0)
		return failure(error, vacant, "there is room for %u entries",
			       host->count[MAP_ENTRIES]);
	clear_counters(host, place);
	/* complete, and found by both lookups, before packets may use it */
	entry = &entries_of(host)[place];
	*entry = *wanted;
	status = write_listener(host, wanted, port->ifindex, place);
	if (!status && bpf_map_update_elem(host->map[MAP_KEYS], &wanted->key,
					   &place, BPF_ANY))
		status = -errno;
	if (status) {
		delete_entry(host, place, NULL);
		return failure(error, status, "cannot add key %u", wanted->key);
	}
	__atomic_store_n(&entry->used, HOST_ENTRY_USED, __ATOMIC_RELEASE);
	return 0;
}

static int set_locked(struct oxh_host *host, const struct oxh_entry *wanted,
		      char *error)
{
	struct host_entry parsed, *entry;
	int status = finish_deletions(host, error), place;

	if (!status)
		status = parse_entry(host, wanted, &parsed, error);
	if (!status)
		status = check_duplicates(host, &parsed, error);
	if (status)
		return status;
	place = find_entry(host, wanted->key);
	if (place < 0)
		return add_entry(host, &parsed, error);
	entry = &entries_of(host)[place];
	if (!same_identity(entry, &parsed))
		return failure(error, -EEXIST,
			       "key %u is another listener's or member's",
			       wanted->key);
	/* a frame may get half of each: the VM drops it */
	memcpy(entry->macs, parsed.macs, sizeof(entry->macs));
	entry->mss = parsed.mss;
	entry->reply_mtu = parsed.reply_mtu;
	return 0;
}

int oxh_entry_set(struct oxh_host *host, const struct oxh_entry *entry,
		  char *error)
{
	int status = lock_host(host, error);

	if (status)
		return status;
	status = set_locked(host, entry, error);
	unlock_host(host);
	return status;
}

int oxh_entry_delete(struct oxh_host *host, uint32_t key, char *error)
{
	int status = lock_host(host, error), place;

	if (status)
		return status;
	status = finish_deletions(host, error);
	if (!status) {
		place = find_entry(host, key);
		status = place < 0 ? 1 : delete_entry(host, place, error);
	}
	unlock_host(host);
	return status;
}

static void add_counters(struct oxh_host *host, uint32_t place,
			 struct oxh_entry *out)
{
	int cpus = libbpf_num_possible_cpus();
	struct host_counters *each = calloc(cpus > 0 ? cpus : 1, sizeof(*each));

	if (each && !bpf_map_lookup_elem(host->map[MAP_COUNTERS], &place, each))
		for (int i = 0; i < cpus; i++) {
			out->packets_in += each[i].packets_in;
			out->bytes_in += each[i].bytes_in;
			out->packets_out += each[i].packets_out;
			out->bytes_out += each[i].bytes_out;
			out->flows += each[i].flows;
			out->drops += each[i].drops;
		}
	free(each);
}

int oxh_entries_list(struct oxh_host *host, struct oxh_entry *out,
		     uint32_t capacity, char *error)
{
	uint32_t count = 0;

	(void)error;
	for (uint32_t i = 0; i < host->count[MAP_ENTRIES]; i++) {
		const struct host_entry *entry = &entries_of(host)[i];
		struct oxh_entry *element;

		/* interrupted deletions, too: callers can repeat them */
		if (!entry->used || count++ >= capacity)
			continue;
		element = &out[count - 1];
		*element = (struct oxh_entry){
			.key = entry->key,
			.vip_port = ntohs(entry->vip_port),
			.port = ntohs(entry->port),
			.protocol = entry->protocol,
			.mss = entry->mss,
		};
		memcpy(element->port_id, ports_of(host)[entry->host_port].id,
		       16);
		memcpy(&element->vip, &entry->vip, 16);
		memcpy(&element->fixed, &entry->fixed, 16);
		memcpy(element->mac, entry->macs, 6);
		memcpy(element->gateway_mac, entry->macs + 6, 6);
		add_counters(host, i, element);
	}
	return count;
}
