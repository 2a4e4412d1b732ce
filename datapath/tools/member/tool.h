/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of octavia-xdp-member. Unless stated otherwise, functions
 * return 0, or -1 after they have printed an error. */
#ifndef MEMBER_TOOL_H
#define MEMBER_TOOL_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "member.h"
#include "member.skel.h"
#include "record.h"

#define PROGRAM "octavia-xdp-member"

/* options.c */
struct arguments {
	const char *command;
	char interface[IFNAMSIZ];
	bool json;
	bool generic, tc;
	bool given;   /* anything that setup would use */
	bool options; /* any of that on the command line */
	int mss;      /* -1: from the MTU, 0: off */
	struct settings settings;
};

int read_arguments(struct arguments *arguments, int count, char **words);

/* usage.c */
void print_usage(FILE *out);

/* error.c */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same with the meaning of `status`, a negative errno, and the last message
 * of libbpf or the kernel. */
int complain_status(int status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* text.c: addresses and rules as text. Parsers print nothing. */
#define ADDRESS_TEXT 64
#define RULE_TEXT 96
bool is_v4(const struct ip_address *address);
int parse_address(const char *text, struct ip_address *out);
int parse_network(const char *text, struct member_network *out);
int parse_number(const char *text, long low, long high, long *out);
/* Return NULL, or what is wrong. */
const char *parse_port_rule(const char *text, struct port_rule *out);
const char *parse_dscp_rule(const char *text, struct dscp_rule *out);
const char *address_text(const struct ip_address *address, char *out);
const char *network_text(const struct member_network *network, char *out);
const char *port_text(const struct port_rule *rule, char *out);
/* Whether its settings can be read. */
bool is_known(const struct record *record);
const char *dscp_text(const struct dscp_rule *rule, char *out);
const char *mode_text(unsigned int mode);

/* interface.c */
struct interface {
	const char *name;
	unsigned int index;
	unsigned int flags; /* IFF_* */
	unsigned int mtu;
	bool ethernet;
};

/* Returns -1, without a message, if there is none. */
int find_interface(const char *name, struct interface *out);
int effective_sysctl(const char *interface, enum sysctl which, int *out);
int sysctl_wanted(enum sysctl which, int effective);
int read_sysctl(const char *interface, const char *name, int *out);
int write_sysctl(const char *interface, enum sysctl which, int value);
const char *sysctl_name(enum sysctl which);

/* lock.c */
int lock(void);

/* note.c: marks a qdisc of ours that has no program yet */
int note_clsact(const struct interface *interface);
bool noted_clsact(const struct interface *interface);
int forget_clsact(const struct interface *interface);

/* netlink.c */
#define ADDRESSES_MAX 1024
struct host_address {
	struct ip_address address;
	unsigned int interface;
	bool ours;       /* added by setup */
	bool link_local; /* or of loopback's own network */
};

/* Lists at most `max` addresses of the host; returns how many, or -1. */
int list_addresses(struct host_address *out, int max);
/* Whether the host's routes send packets to the address to the host itself. */
bool is_local(const struct ip_address *address);
int add_vip_address(const struct ip_address *address);
int delete_vip_address(const struct ip_address *address);
/* Filters of the interface's clsact qdisc, in both directions; -1: error. */
int count_filters(unsigned int ifindex);
/* 1, 0; -1: error */
int has_clsact(unsigned int ifindex);

/* settings.c */
/* Sorts, checks, and fills in settings that depend on the interface. */
int complete_settings(struct arguments *arguments,
		      const struct interface *interface);
bool has_vip(const struct settings *settings, const struct ip_address *address);
/* Whether one of the networks contains all of `network`. */
bool contains(const struct member_network *networks, __u32 count,
	      const struct member_network *network);
/* Bytes of the largest outer header that packets have on their way here. */
unsigned int largest_overhead(const struct settings *settings);

/* hooks.c: what is attached to an interface. File descriptors are -1 if nothing
 * of ours is attached. */
struct installed {
	int xdp, in, out;
	unsigned int xdp_mode; /* MODE_XDP or MODE_GENERIC */
	const char *foreign;   /* hook of a foreign program, or NULL */
	bool clsact;           /* the qdisc exists */
	bool have_record;
	bool mixed; /* programs of several setups */
	struct record record;
};

int find_installed(const struct interface *interface,
		   struct installed *installed);
void close_installed(struct installed *installed);
bool is_installed(const struct installed *installed);
/* The program that takes packets in; -1: none. */
int ingress_program(const struct installed *installed);
int attach_out(const struct interface *interface,
	       const struct installed *installed, int program);
int attach_ingress(const struct interface *interface,
		   const struct installed *installed,
		   const struct settings *settings, struct member *object);
/* Whether a tc ingress filter is needed: in tc mode, or to hand packets on. */
bool wants_filter(const struct settings *settings);
int detach_ingress(const struct interface *interface,
		   const struct installed *installed, bool xdp, bool in);
int detach_out(const struct interface *interface,
	       const struct installed *installed);

/* program.c */
struct member *load_programs(const struct settings *settings,
			     const struct undo *undo, int old);
/* Loads the programs over the maps of the attached one, for test runs. Returns
 * NULL with the reason in `text` on failure. */
struct member *load_copy(const struct settings *settings, int attached,
			 char *text, size_t length);
int program_map(int program, const char *name);
bool same_code(int one, int other);
int read_counters(int program, uint64_t values[MEMBER_COUNTERS]);
int write_record(int program, const struct record *record);

/* sockets.c */
/* Returns whether all offsets are known. */
bool find_sockets(struct member_config *config);

/* addresses.c */
/* Removes VIPs that setup put on lo and no interface wants any more. `settings`
 * replace those of `except`; NULL: it wants none. */
int sweep_addresses(unsigned int except, const struct settings *settings);
int put_addresses(const struct settings *settings);

/* probe.c: how many packets were tried, or -1 with a sentence in `text`. */
int probe(const struct settings *settings, int attached, char *text,
	  size_t length);

/* The commands; return exit codes. */
int setup(struct arguments *arguments);
int check(struct arguments *arguments);
int remove_all(struct arguments *arguments);
int show(struct arguments *arguments);

/* json.c */
void json_open(char bracket, const char *name);
void json_close(char bracket);
void json_string(const char *name, const char *value);
void json_number(const char *name, uint64_t value);
void json_bool(const char *name, bool value);

#endif
