/* SPDX-License-Identifier: Apache-2.0 */
/* An empty node and the key of a service that tests set and read. The node is
 * verified at the end. */
#ifndef OXP_SERVICE_FIXTURE_H
#define OXP_SERVICE_FIXTURE_H

#include "harness.h"

static struct oxp_node *node;
static struct oxp_key http;

static int set_up(void **state)
{
	(void)state;
	node = fresh_state();
	http = tcp_key(VIP, 80);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	assert_ok(oxp_test_verify(node, error));
	oxp_close(node);
	return 0;
}

static inline struct oxp_service show(void)
{
	struct oxp_service service;

	assert_ok(oxp_service_get(node, &http, &service, error));
	return service;
}

#define TEST(name) TEST_WITH(name, set_up, tear_down)

#endif
