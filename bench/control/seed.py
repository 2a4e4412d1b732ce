# SPDX-License-Identifier: Apache-2.0
"""Load balancers put into the controller's tables, as they are after Octavia
has committed them and the scheduler has placed them.

By the driver's calls thousands would take minutes of a controller that is to
be measured afterwards. What is left to it is all of the rest: nodes fetch and
report them, and Octavia is sent that they are ACTIVE.
"""

import json

import sqlalchemy as sa

from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller import status_message
from octavia_xdp_provider.controller.store import capacity
from octavia_xdp_provider.controller.store import models


def seed(store, documents, hosts, replicas):
    """Store new load balancers, each on so many nodes in turn."""
    with store._writing() as rows:
        generation = store._next_generation(rows)
        now = store._now(rows)
        found = _rows(documents, hosts, replicas, generation, now)
        for table, values in found.items():
            rows.execute(sa.insert(table.__table__), values)
        store._mark_work(rows, [one['id'] for one in documents])


def _rows(documents, hosts, replicas, generation, now):
    """Table → rows."""
    return {
        models.LoadBalancer: [{
            'id': one['id'], 'vip_address': one['vip_address'],
            'document': json.dumps(one, sort_keys=True),
            'generation': generation, 'sent_generation': 0,
            'failed_generation': 0, 'removed': '[]', 'deleted': False,
            'changed_at': now, 'unconfirmed': json.dumps([
                [kind, key, generation] for kind, key
                in sorted(_pending(one))])} for one in documents],
        models.Pool: [{'id': key, 'load_balancer_id': one['id']}
                      for one in documents for key in one['pools']],
        models.Vip: [{'address': address, 'load_balancer_id': one['id']}
                     for one in documents for address in spec.vips(one)],
        models.MemberAddress: [
            {'address': address, 'load_balancer_id': one['id']}
            for one in documents for address in spec.member_addresses(one)],
        models.Usage: [{
            'load_balancer_id': one['id'],
            'services': capacity.need(one).services,
            'members': capacity.need(one).members} for one in documents],
        models.Placement: [{
            'load_balancer_id': one['id'], 'synced_generation': 0,
            'placed_generation': generation, 'report_epoch': 0,
            'drain_generation': 0,
            'host': hosts[(replicas * number + index) % len(hosts)]}
            for number, one in enumerate(documents)
            for index in range(replicas)]}


def _pending(document):
    """Objects that Octavia shows as PENDING_CREATE."""
    return status_message.made_pending(None, document, {
        'object': 'loadbalancer', 'action': 'create',
        'object_id': document['id'], 'load_balancer_id': document['id'],
        'fields': {}})
