// SPDX-License-Identifier: Apache-2.0
#include "service/find.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "error.h"
#include "node/lock.h"
#include "service/validate.h"
#include "state.h"
#include "table/blocks.h"
#include "table/lookup.h"

int lock_service(struct oxp_node *node, const struct oxp_key *key, char *error)
{
	struct lookup_key lookup;
	int status = check_key(key, error);

	if (!status)
		status = lock_node(node, error);
	if (status)
		return status;
	lookup = lookup_key(key->vip.bytes, htons(key->port), key->protocol);
	status = find_service(node, &lookup);
	if (status < 0) {
		unlock_node(node);
		return failure(error, status, "%s",
			       key_text(key->vip.bytes, htons(key->port),
					key->protocol));
	}
	return status;
}
