/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contents of packets, and the files with which octavia-xdp-traffic is
 * configured and reports results. Read by compilers and, through cffi, by
 * bench/traffic/formats.py, so all macros are integers. All little-endian
 * except addresses and ports.
 */
#ifndef OXT_FORMAT_H
#define OXT_FORMAT_H

#include <stdint.h>

#define FORMAT_VERSION 3

/* Start of payloads; of those of QUIC after their header. */
#define SIGNATURE_MAGIC 0x9d3b
/* Marks the first packet of a flow: upper half of a SYN's sequence number,
 * above the stream's id, or start of the payload of QUIC. */
#define OPENING_MAGIC 0x9d3c

struct signature {
	uint16_t magic;
	uint16_t stream; /* `id` of struct stream */
	uint32_t flow;
	uint32_t number; /* of the stream's packets, from 0 on */
	uint16_t destination;
	uint16_t time_high; /* CLOCK_MONOTONIC when sent, ns, 48 bits */
	uint32_t time_low;
};

#define SIGNATURE_LENGTH 20
/* QUIC (RFC 9000, section 17): a short header with a connection id of 8 bytes
 * and a packet number of 3; an Initial of version 1 with that id, no source
 * id, no token, a length of 2 bytes and a packet number of 4. */
#define QUIC_SHORT_LENGTH 12
#define QUIC_INITIAL_LENGTH 22
#define QUIC_INITIAL_DATAGRAM 1200

enum kind {
	KIND_ESTABLISHED,
	KIND_OPENED,
	KIND_SYN
};
enum protocol {
	PROTOCOL_UDP,
	PROTOCOL_TCP,
	PROTOCOL_QUIC
};

/* Longest frame without FCS: live frames have to fit a page. */
#define FRAME_MAX 3072
/* At least this part of each page is rewritten. */
#define FRAME_HEAD 128

#define STREAMS_MAX 16
#define INTERFACES_MAX 16
#define DESTINATIONS_MAX 65536
#define FLOWS_MAX 16777216
#define SIZES_MAX 4096
#define SECONDS_MAX 3600
#define TIMELINE_NS 100000000
#define TIMELINE_MAX 36000

struct destination {
	uint8_t address[16]; /* first four: IPv4 */
	uint16_t port;
	uint8_t version; /* of IP */
	uint8_t protocol;
	uint8_t next_hop[6];
	uint8_t source_mac[6];
	uint32_t ifindex;
	uint32_t reserved;
};

/* The file for `send`: struct send_file, then for each stream struct stream,
 * its destinations, uint16_t[slots], uint16_t[sizes] and padding to a multiple
 * of 8. */
struct send_file {
	uint32_t version;
	uint32_t streams;
};

struct stream {
	uint64_t duration_ns;
	uint64_t interval; /* between packets, ns / 65536; 0: none */
	uint64_t opening_interval;
	uint64_t packets;  /* at most */
	uint64_t burst_ns; /* delay up to which packets are caught up */
	uint32_t flows;    /* 0: a new one for each */
	uint32_t seed;
	uint32_t clients_v4; /* first address, as a number */
	uint32_t clients;    /* how many addresses */
	uint32_t clients_v6; /* how many addresses */
	uint32_t destinations;
	uint32_t slots; /* flows to destinations, by weight */
	uint32_t sizes; /* sizes of frames, by weight */
	uint32_t frame; /* the longest */
	uint8_t network_v6[16];
	uint16_t id; /* the lowest four bits are unique */
	uint8_t kind;
	uint8_t reserved;
};

/* The file for `receive`: struct receive_file, then struct expected_stream for
 * each stream. */
struct receive_file {
	uint32_t version;
	uint32_t streams;
};

struct expected_stream {
	uint32_t packets; /* at most */
	uint32_t flows;   /* 0: a new one for each */
	uint32_t destinations;
	uint16_t id;
	uint16_t reserved;
};

/* Log-linear: buckets of 1 ns below 128 ns, and 128 buckets for each power of
 * two above, less than 1 % wide. */
#define LATENCY_SUB_BITS 7
#define LATENCY_BITS 40
#define LATENCY_BUCKETS 4352 /* 128 * (40 - 7 + 1) */

/* Packets without a signature of the expected streams, or to other hosts. */
enum foreign {
	FOREIGN_ARP,
	FOREIGN_NEIGHBOUR, /* ICMPv6 neighbour and router discovery, MLD */
	FOREIGN_ICMP,
	FOREIGN_LINK, /* neither IP nor ARP: LLDP, bridges */
	FOREIGN_BFD,
	FOREIGN_TCP, /* without outer header: sessions of the host itself */
	FOREIGN_UDP, /* without outer header */
	FOREIGN_TUNNELLED, /* in outer headers */
	FOREIGN_FRAGMENT,
	FOREIGN_STREAM, /* with a signature, of another run */
	FOREIGN_OTHER,
	FOREIGN_OTHER_HOST, /* to another unicast address of the link */
	FOREIGN_KINDS
};

struct stream_counters {
	uint64_t received; /* each packet once */
	uint64_t duplicates;
	uint64_t reordered; /* after a later one of its flow */
	uint64_t opened;
	uint64_t invalid; /* impossible numbers */
	uint64_t early;   /* before they were sent */
	uint64_t latency_max;
};

/* The result of `receive`: struct result_file, then for each stream struct
 * stream_result, uint64_t[destinations], uint64_t[LATENCY_BUCKETS] and
 * uint64_t[words], with a bit for each received packet's number. */
struct result_file {
	uint32_t version;
	uint32_t streams;
	uint64_t foreign[FOREIGN_KINDS];
};

struct stream_result {
	struct stream_counters counters;
	uint32_t id;
	uint32_t destinations;
	uint64_t words;
};

/* The result of `send`: struct sent_file, then for each stream struct
 * stream_sent, uint64_t[destinations] and uint32_t[timeline], packets sent in
 * each tenth of a second. */
struct sent_file {
	uint32_t version;
	uint32_t streams;
};

struct stream_sent {
	uint64_t sent;
	uint64_t opened;
	uint64_t refused; /* of both, by the link with a full queue */
	uint64_t last_ns; /* from the start on */
	uint32_t id;
	uint32_t destinations;
	uint32_t timeline;
	uint32_t complete; /* 0: ended before its duration */
	int32_t error;     /* of the link, when it refused */
	uint32_t reserved;
};

#endif
