# SPDX-License-Identifier: Apache-2.0
"""Status messages: which objects they are about, and what they say."""

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from octavia_lib.common import constants as lib

from octavia_xdp_provider.common import changes
from octavia_xdp_provider.common import spec

# Plural names of Octavia's status message by kind of object.
PLURALS = {'loadbalancer': lib.LOADBALANCERS, 'listener': lib.LISTENERS,
           'pool': lib.POOLS, 'member': lib.MEMBERS,
           'healthmonitor': lib.HEALTHMONITORS}

_PENDING = 'PENDING_'


def message(operating: Mapping[spec.Object, str],
            provisioning: Mapping[spec.Object, str] | None = None,
            removed: Iterable[spec.Object] = ()
            ) -> dict[str, list[dict[str, Any]]]:
    """A status message for Octavia.set_statuses.

    :param operating, provisioning: only of the objects that it is about:
        what Octavia is sent moves the object's ``updated_at``.
    :param removed: deleted objects.
    """
    provisioning = provisioning or {}
    result: dict[str, list[dict[str, Any]]] = {}

    def add(kind: str, key: str, **statuses: str) -> None:
        result.setdefault(PLURALS[kind], []).append(
            {lib.ID: key, **statuses})

    for kind, key in removed:
        add(kind, key, provisioning_status=lib.DELETED)
    for kind, key in dict.fromkeys([*operating, *provisioning]):
        statuses = {}
        if (kind, key) in operating:
            statuses[lib.OPERATING_STATUS] = operating[kind, key]
        if (kind, key) in provisioning:
            statuses[lib.PROVISIONING_STATUS] = provisioning[kind, key]
        add(kind, key, **statuses)
    return result


def difference(operating: Mapping[spec.Object, str],
               sent: Mapping[spec.Object, str]) -> dict[spec.Object, str]:
    """The statuses that Octavia was not sent yet."""
    return {key: status for key, status in operating.items()
            if sent.get(key) != status}


def pending(tree: Mapping[spec.Object, str]) -> set[spec.Object]:
    """The objects that a tree of provisioning statuses shows as PENDING."""
    return {key for key, status in tree.items()
            if status.startswith(_PENDING)}


def made_pending(before: spec.Document | None, after: spec.Document,
                 change: changes.Change) -> set[spec.Object]:
    """The objects of ``after`` that Octavia makes PENDING with a change.

    These are the object, what was made with it, and its ancestors, the
    listeners that use the pool among them. Without those that the change
    deletes: they are to become DELETED.

    :param before: None where the load balancer is created.
    """
    kind, action = change['object'], change['action']
    found: set[spec.Object] = {('loadbalancer', after['id'])}
    if kind == 'loadbalancer':
        if action == 'create' or before is None:
            found |= spec.objects(after)
        return found
    if before is not None:
        # Also what the change brings along with its object.
        found |= spec.objects(after) - spec.objects(before)
    if kind == 'member' and action == 'replace':
        found |= {('member', key) for key in change['members']}
    elif change['object_id']:
        found.add((kind, change['object_id']))
    if kind == 'listener':
        return found & spec.objects(after)
    pool_id = change.get('pool_id') or change['object_id'] or ''
    found.add(('pool', pool_id))
    for document in (before, after):
        if document is not None:
            found |= {('listener', key) for key, listener
                      in document['listeners'].items()
                      if listener['default_pool_id'] == pool_id}
    return found & spec.objects(after)
