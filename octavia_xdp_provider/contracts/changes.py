# SPDX-License-Identifier: Apache-2.0
"""Changes of a document, which the driver sends for calls of the API."""

import copy
from typing import Any
from typing import cast
from typing import Literal

from typing_extensions import NotRequired
from typing_extensions import TypedDict

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import l7_types
from octavia_xdp_provider.contracts import sealed
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.contracts import spec

Kind = Literal['loadbalancer', 'listener', 'pool', 'member', 'healthmonitor',
               'l7policy', 'l7rule']

# Of kinds without a load_balancer_id: the field that names the parent.
PARENTS: dict[str, str] = {
    'member': 'pool_id', 'healthmonitor': 'pool_id',
    'l7policy': 'listener_id', 'l7rule': 'l7policy_id'}

# Fields of a policy that Octavia resets when a change sets the action.
_RESET_BY_ACTION = {
    'REJECT': ('redirect_pool_id', 'redirect_url', 'redirect_prefix',
               'redirect_http_code'),
    'REDIRECT_TO_URL': ('redirect_pool_id', 'redirect_prefix'),
    'REDIRECT_TO_POOL': ('redirect_url', 'redirect_prefix',
                         'redirect_http_code'),
    'REDIRECT_PREFIX': ('redirect_pool_id', 'redirect_url')}


@shape.strict
class Change(TypedDict):
    """A change that the driver requests.

    ``object_id``: null if all members of a pool are replaced.
    ``load_balancer_id``: for all objects but those in PARENTS, which name
    their parent. ``fields``: of the object that is created (with
    its children) or updated; null resets a field to its default.
    ``members``: the complete new members of the pool, by id. ``pools``: pools
    created along with a listener, by id. ``listener_id``: also the listener
    whose default pool a new pool becomes. ``incomplete``: whether Octavia
    creates more than it has told the driver, so that controllers ask for the
    rest once it is committed. A failover does not change the document, but
    moves the load balancer to other nodes. ``bundles``: certificates that
    the fields name and that the controllers may not have, by name; sealed for
    them, and never stored with the change.
    """

    object: Kind
    action: Literal['create', 'update', 'delete', 'replace', 'failover']
    object_id: str | None
    load_balancer_id: NotRequired[str]
    pool_id: NotRequired[str]
    listener_id: NotRequired[str | None]
    l7policy_id: NotRequired[str]
    fields: NotRequired[spec.Fields]
    members: NotRequired[dict[str, spec.Fields]]
    pools: NotRequired[dict[str, spec.Fields]]
    incomplete: NotRequired[bool]
    bundles: NotRequired[sealed.Bundles]


def parent(change: Change) -> str | None:
    """Return the id of the object that a change names instead of the load
    balancer, or None."""
    name = PARENTS.get(change['object'])
    return cast(str | None, change.get(name)) if name else None


def _pool(doc: spec.Document, pool_id: str) -> spec.Pool:
    try:
        return doc['pools'][pool_id]
    except KeyError:
        raise errors.UnknownObject(f'pool {pool_id}') from None


def _merge(kind: str, old: Any, fields: spec.Fields) -> Any:
    return spec.with_defaults(kind, {**old, **fields})


def _listener(doc: spec.Document, change: Change) -> None:
    key = _object_id(change)
    if change['action'] == 'delete':
        doc['listeners'].pop(key, None)
    elif change['action'] == 'create':
        doc['listeners'][key] = spec.complete_listener(change['fields'])
        # Octavia allows to create a listener along with its default pool.
        for pool_id, tree in change.get('pools', {}).items():
            doc['pools'].setdefault(pool_id, spec.complete_pool(tree))
    elif key in doc['listeners']:
        doc['listeners'][key] = _merge(
            'listener', doc['listeners'][key], change['fields'])
    else:
        raise errors.UnknownObject(f'listener {key}')


def _pool_change(doc: spec.Document, change: Change) -> None:
    key = _object_id(change)
    if change['action'] == 'delete':
        doc['pools'].pop(key, None)
        for listener in doc['listeners'].values():
            if listener['default_pool_id'] == key:
                listener['default_pool_id'] = None
    elif change['action'] == 'create':
        doc['pools'][key] = spec.complete_pool(change['fields'])
        listener_id = change.get('listener_id')
        if listener_id in doc['listeners']:
            doc['listeners'][listener_id]['default_pool_id'] = key
    else:
        pool = _pool(doc, key)
        fields = dict(change['fields'])
        if fields.get('session_persistence') and pool['session_persistence']:
            # Octavia updates only the fields in the request.
            fields['session_persistence'] = {
                **pool['session_persistence'],
                **fields['session_persistence']}
        doc['pools'][key] = _merge('pool', pool, fields)


def _member(doc: spec.Document, change: Change) -> None:
    pool = _pool(doc, change['pool_id'])
    if change['action'] == 'replace':
        pool['members'] = {
            member_id: _merge('member', pool['members'].get(member_id, {}),
                              fields)
            for member_id, fields in change['members'].items()}
        return
    key = _object_id(change)
    if change['action'] == 'delete':
        pool['members'].pop(key, None)
    elif change['action'] == 'update' and key not in pool['members']:
        raise errors.UnknownObject(f'member {key}')
    else:
        pool['members'][key] = _merge(
            'member', pool['members'].get(key, {}), change['fields'])


def _health_monitor(doc: spec.Document, change: Change) -> None:
    pool = _pool(doc, change['pool_id'])
    monitor = cast(spec.Fields, pool['healthmonitor'] or {})
    if change['action'] == 'delete':
        pool['healthmonitor'] = None
    elif change['action'] == 'update' and not monitor:
        raise errors.UnknownObject(f'healthmonitor {change["object_id"]}')
    else:
        pool['healthmonitor'] = _merge(
            'healthmonitor', monitor,
            dict(change['fields'], id=change['object_id']))


def _l7policy(doc: spec.Document, change: Change) -> None:
    key, listener_id = _object_id(change), change['listener_id'] or ''
    if listener_id not in doc['listeners']:
        if change['action'] == 'delete':
            return
        raise errors.UnknownObject(f'listener {listener_id}')
    listener = doc['listeners'][listener_id]
    policies = listener.get('l7policies', {})
    if change['action'] == 'delete':
        policies.pop(key, None)
        number_policies(policies)
    elif change['action'] == 'update' and key not in policies:
        raise errors.UnknownObject(f'l7policy {key}')
    else:
        old = cast(spec.Fields, policies.get(key, {}))
        fields = dict(change['fields'])
        if change['action'] == 'update':
            fields.update(dict.fromkeys(_RESET_BY_ACTION.get(
                fields.get('action') or '', ())))
        policies[key] = spec.complete_policy({**old, **fields})
        if policies[key]['position'] != old.get('position'):
            number_policies(policies, key)
    doc['listeners'][listener_id] = _merge(
        'listener', listener, {'l7policies': policies})


def number_policies(policies: dict[str, l7_types.Policy],
                    moved: str | None = None) -> None:
    """Number the policies of a listener from 1, as Octavia does.

    :param moved: the policy that takes its position from another one, which
        comes after it then; if it is beyond the last one, the last one.
    """
    order = sorted((key for key in policies if key != moved),
                   key=lambda key: (policies[key]['position'], key))
    if moved is not None:
        order.insert(policies[moved]['position'] - 1, moved)
    for position, key in enumerate(order, 1):
        policies[key]['position'] = position


def _l7rule(doc: spec.Document, change: Change) -> None:
    key, policy_id = _object_id(change), change['l7policy_id']
    policy = next((
        listener['l7policies'][policy_id]
        for listener in doc['listeners'].values()
        if policy_id in listener.get('l7policies', {})), None)
    if policy is None:
        if change['action'] == 'delete':
            return
        raise errors.UnknownObject(f'l7policy {policy_id}')
    if change['action'] == 'delete':
        policy['rules'].pop(key, None)
    elif change['action'] == 'update' and key not in policy['rules']:
        raise errors.UnknownObject(f'l7rule {key}')
    else:
        policy['rules'][key] = _merge(
            'l7rule', policy['rules'].get(key, {}), change['fields'])


def _load_balancer(doc: spec.Document, change: Change) -> None:
    if change['action'] == 'failover':
        return
    doc.update(_merge('loadbalancer', doc, change['fields']))


def _object_id(change: Change) -> str:
    key = change['object_id']
    if key is None:
        raise errors.UnknownObject(f'{change["object"]} without an id')
    return key


_APPLY = {'loadbalancer': _load_balancer, 'listener': _listener,
          'pool': _pool_change, 'member': _member,
          'healthmonitor': _health_monitor, 'l7policy': _l7policy,
          'l7rule': _l7rule}


def apply(doc: spec.Document, change: Change) -> spec.Document:
    """Return the document after the change.

    Creating an existing object or deleting an unknown one is not an error, so
    that a repeated message does no harm.

    :param change: has passed ``validation.check_change``.
    :raises UnknownObject: an update names an object that does not exist.
    """
    result = copy.deepcopy(doc)
    _APPLY[change['object']](result, change)
    return result
