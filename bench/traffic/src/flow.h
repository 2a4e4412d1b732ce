/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flow and size of a packet, derived from its number alone, so that the
 * flow of a missing packet is known. As in bench/traffic/flows.py.
 */
#ifndef OXT_FLOW_H
#define OXT_FLOW_H

#include <stdint.h>

#define PORT_FIRST 1024
#define PORTS 64512

/* A permutation in which every bit of the result depends on every bit of the
 * argument (constants of "lowbias32", C. Wellons). */
static inline uint32_t mix(uint32_t value)
{
	value ^= value >> 16;
	value *= 0x7feb352d;
	value ^= value >> 15;
	value *= 0x846ca68b;
	return value ^ value >> 16;
}

/* Returns 0 to below - 1. */
static inline uint32_t scaled(uint32_t random, uint32_t below)
{
	return (uint64_t)random * below >> 32;
}

static inline uint32_t flow_of(uint32_t random, uint32_t number, uint32_t flows)
{
	return flows ? scaled(random, flows) : number;
}

static inline uint32_t size_index(uint32_t random, uint32_t sizes)
{
	return scaled(random * 0x9e3779b1, sizes);
}

#endif
