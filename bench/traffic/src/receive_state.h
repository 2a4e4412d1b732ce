/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Constants of the receiving program, set when it is loaded. */
#ifndef OXT_RECEIVE_STATE_H
#define OXT_RECEIVE_STATE_H

#include "format.h"

struct stream_state {
	struct expected_stream expected;
	/* the first of the stream's elements in the maps */
	uint32_t words;
	uint32_t flows;
	uint32_t destinations;
	uint32_t present;
};

/* An interface that the program is attached to. */
struct own_interface {
	uint32_t ifindex;
	uint8_t mac[6];
	uint16_t reserved;
};

#endif
