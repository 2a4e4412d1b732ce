# SPDX-License-Identifier: Apache-2.0
"""Writes load balancers into the controller's tables, as if Octavia had
committed and the scheduler placed them.

By the driver's calls, thousands would take minutes. The rest is left to the
controller: nodes fetch and report them, and it sends ACTIVE to Octavia.
"""

import json

import sqlalchemy as sa

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import status_message
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import capacity
from octavia_xdp_provider.controller.store import marks
from octavia_xdp_provider.controller.store import models


def seed(store, documents, hosts, replicas):
    """Store new load balancers, each on ``replicas`` nodes in turn."""
    with store.database.write_rows() as rows:
        generation = base.next_generation(rows)
        now = base.now(rows)
        tables = _rows(documents, hosts, replicas, generation, now)
        for table, values in tables.items():
            rows.execute(sa.insert(table.__table__), values)
        marks.mark(rows, [document['id'] for document in documents])


def _rows(documents, hosts, replicas, generation, now):
    """Return rows by table."""
    return {
        models.LoadBalancer: [{
            'id': document['id'], 'vip_address': document['vip_address'],
            'document': json.dumps(document, sort_keys=True),
            'generation': generation, 'sent_generation': 0,
            'failed_generation': 0, 'removed': '[]', 'deleted': False,
            'changed_at': now, 'unconfirmed': json.dumps([
                [kind, key, generation] for kind, key
                in sorted(_pending(document))])} for document in documents],
        models.Pool: [{'id': key, 'load_balancer_id': document['id']}
                      for document in documents for key in document['pools']],
        models.Vip: [{'address': address, 'load_balancer_id': document['id']}
                     for document in documents
                     for address in spec.vips(document)],
        models.MemberAddress: [
            {'address': address, 'load_balancer_id': document['id']}
            for document in documents
            for address in spec.member_addresses(document)],
        models.Usage: [{
            'load_balancer_id': document['id'],
            'services': capacity.need(document).services,
            'members': capacity.need(document).members}
            for document in documents],
        models.Placement: [{
            'load_balancer_id': document['id'], 'synced_generation': 0,
            'placed_generation': generation, 'report_epoch': 0,
            'drain_generation': 0,
            'host': hosts[(replicas * number + index) % len(hosts)]}
            for number, document in enumerate(documents)
            for index in range(replicas)]}


def _pending(document):
    """Return the objects that Octavia shows as PENDING_CREATE."""
    return status_message.made_pending(None, document, {
        'object': 'loadbalancer', 'action': 'create',
        'object_id': document['id'], 'load_balancer_id': document['id'],
        'fields': {}})
