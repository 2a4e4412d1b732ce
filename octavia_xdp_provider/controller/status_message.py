# SPDX-License-Identifier: Apache-2.0
"""Builds status messages and determines the objects that they concern."""

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from octavia_lib.common import constants as lib

from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import spec

# Plural names of Octavia's status message by kind of object.
PLURALS = {'loadbalancer': lib.LOADBALANCERS, 'listener': lib.LISTENERS,
           'l7policy': lib.L7POLICIES, 'l7rule': lib.L7RULES,
           'pool': lib.POOLS, 'member': lib.MEMBERS,
           'healthmonitor': lib.HEALTHMONITORS}

_PENDING = 'PENDING_'


def message(operating: Mapping[spec.Object, str],
            provisioning: Mapping[spec.Object, str] | None = None,
            removed: Iterable[spec.Object] = ()
            ) -> dict[str, list[dict[str, Any]]]:
    """Return a status message for Octavia.set_statuses.

    :param operating, provisioning: statuses of the objects that have changed:
        each status moves its object's ``updated_at``.
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
    """Return the statuses that were not yet sent to Octavia."""
    return {key: status for key, status in operating.items()
            if sent.get(key) != status}


def pending(tree: Mapping[spec.Object, str]) -> set[spec.Object]:
    """Return the objects that are PENDING_* in a tree of statuses."""
    return {key for key, status in tree.items()
            if status.startswith(_PENDING)}


def made_pending(before: spec.Document | None, after: spec.Document,
                 change: changes.Change) -> set[spec.Object]:
    """Return the objects of ``after`` that a change makes PENDING in Octavia.

    These are the object, objects created with it, and its ancestors, including
    the listeners that use the pool by default or by an enabled policy. Objects
    that the change deletes are not included: they become DELETED.

    :param before: None if the load balancer is created.
    """
    kind: str = change['object']
    action = change['action']
    made: set[spec.Object] = {('loadbalancer', after['id'])}
    if kind == 'loadbalancer':
        if action == 'create' or before is None:
            made |= spec.objects(after)
        return made
    if before is not None:
        # Objects that the change creates along with its own.
        made |= spec.objects(after) - spec.objects(before)
    if kind == 'member' and action == 'replace':
        made |= {('member', key) for key in change['members']}
    elif change['object_id']:
        made.add((kind, change['object_id']))
    documents = [document for document in (before, after)
                 if document is not None]
    if kind in ('l7policy', 'l7rule'):
        for document in documents:
            made |= _above(document, kind, change['object_id'] or '')
    elif kind != 'listener':
        pool_id = change.get('pool_id') or change['object_id'] or ''
        made.add(('pool', pool_id))
        for document in documents:
            made |= {('listener', key) for key, listener
                     in document['listeners'].items()
                     if _uses(listener, pool_id)}
    return made & spec.objects(after)


def _above(document: spec.Document, kind: str, key: str) -> set[spec.Object]:
    """Return the listener, and for a rule the policy, of a layer-7 object."""
    made: set[spec.Object] = set()
    for listener_id, listener in document['listeners'].items():
        for policy_id, policy in listener.get('l7policies', {}).items():
            if kind == 'l7rule' and key in policy['rules']:
                made |= {('listener', listener_id), ('l7policy', policy_id)}
            elif (kind, key) == ('l7policy', policy_id):
                made.add(('listener', listener_id))
    return made


def _uses(listener: spec.Listener, pool_id: str) -> bool:
    """Return whether a pool makes a listener PENDING, as in Octavia: its
    policies count if they are enabled and have any rule."""
    return listener['default_pool_id'] == pool_id or any(
        policy['redirect_pool_id'] == pool_id and policy['admin_state_up']
        and bool(policy['rules'])
        for policy in listener.get('l7policies', {}).values())
