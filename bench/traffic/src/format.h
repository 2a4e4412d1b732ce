/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What packets carry, and the files by which octavia-xdp-traffic is told what
 * to send and reports what it received. Read by the compilers and, by cffi, by
 * bench/traffic/formats.py: no macros but integers. All little-endian, but for
 * addresses and ports.
 */
#ifndef OXT_FORMAT_H
#define OXT_FORMAT_H

#include <stdint.h>

#define FORMAT_VERSION 2

/* Payloads begin with it; those of QUIC after their header. */
#define SIGNATURE_MAGIC 0x9d3b
/* The first packet of a flow: in the place of the sequence number of a SYN
 * (above the stream's number), or at the start of the payload of QUIC. */
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
/* Of QUIC, RFC 9000, section 17: short header with a connection identifier of
 * 8 bytes and a packet number of 3; Initial of version 1 with that identifier,
 * none of the source, no token, a length of 2 bytes, packet number of 4. */
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

/* Frames that can be sent, without FCS: live frames have to fit a page. */
#define FRAME_MAX 3072
/* At least so many bytes of each page are written anew. */
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
	uint8_t address[16]; /* IPv4 in the first four */
	uint16_t port;
	uint8_t version; /* of IP */
	uint8_t protocol;
	uint8_t next_hop[6];
	uint8_t source_mac[6];
	uint32_t ifindex;
	uint32_t reserved;
};

/* In a file behind each other: struct send_file, and for each stream struct
 * stream, its destinations, uint16_t[slots], uint16_t[sizes], padding to a
 * multiple of 8. */
struct send_file {
	uint32_t version;
	uint32_t streams;
};

struct stream {
	uint64_t duration_ns;
	uint64_t interval; /* between packets, ns / 65536; 0: as they come */
	uint64_t opening_interval;
	uint64_t packets;  /* at most */
	uint64_t burst_ns; /* what is sent late by so much is made up for */
	uint32_t flows;    /* 0: each packet another one */
	uint32_t seed;
	uint32_t clients_v4; /* first address, as a number */
	uint32_t clients;    /* how many addresses */
	uint32_t clients_v6; /* how many addresses */
	uint32_t destinations;
	uint32_t slots; /* of flows, for destinations by weight */
	uint32_t sizes; /* of frames, by weight */
	int32_t cpu;    /* -1: any */
	uint32_t frame; /* the longest */
	uint8_t network_v6[16];
	uint16_t id; /* its last four bits are another one's of each stream */
	uint8_t kind;
	uint8_t reserved[5];
};

/* struct receive_file and struct expected_stream for each stream. */
struct receive_file {
	uint32_t version;
	uint32_t streams;
};

struct expected_stream {
	uint32_t packets; /* at most */
	uint32_t flows;   /* 0: each packet another one */
	uint32_t destinations;
	uint16_t id;
	uint16_t reserved;
};

/* Log-linear: what is below 128 ns has buckets of one, each power of two above
 * has 128: less than 1 % wide. */
#define LATENCY_SUB_BITS 7
#define LATENCY_BITS 40
#define LATENCY_BUCKETS 4352 /* 128 * (40 - 7 + 1) */

/* What was received without a signature of the streams expected, or is another
 * host's. */
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
	uint64_t invalid; /* numbers that cannot be */
	uint64_t early;   /* before they were sent */
	uint64_t latency_max;
	uint64_t bytes; /* of frames, as received */
};

/* What `receive` writes: struct result_file, and for each stream struct
 * stream_result, uint64_t[destinations], uint64_t[LATENCY_BUCKETS] and
 * uint64_t[words], whose bits are the numbers of the packets received. */
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

/* What `send` writes: struct sent_file, and for each stream struct
 * stream_sent, uint64_t[destinations] and uint32_t[timeline], packets sent in
 * each tenth of a second. */
struct sent_file {
	uint32_t version;
	uint32_t streams;
};

struct stream_sent {
	uint64_t sent;
	uint64_t opened;
	uint64_t refused;  /* of both, by the link: its queue was full */
	uint64_t start_ns; /* CLOCK_MONOTONIC */
	uint64_t first_ns, last_ns; /* from the start on */
	uint64_t late; /* times that burst_ns did not make up for */
	uint32_t id;
	uint32_t destinations;
	uint32_t timeline;
	uint32_t complete; /* 0: ended before its duration */
	int32_t error;     /* of the link, when it refused */
	uint32_t reserved;
};

#endif
