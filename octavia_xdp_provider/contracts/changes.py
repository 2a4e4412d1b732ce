# SPDX-License-Identifier: Apache-2.0
"""Changes of a document, which the driver sends for calls of the API."""

import copy
from typing import Any
from typing import cast
from typing import Literal

from typing_extensions import NotRequired
from typing_extensions import TypedDict

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import sealed
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.contracts import spec

Kind = Literal['loadbalancer', 'listener', 'pool', 'member', 'healthmonitor']


@shape.strict
class Change(TypedDict):
    """A change that the driver requests.

    ``object_id``: null if all members of a pool are replaced.
    ``load_balancer_id``: for all objects but members and health monitors,
    which have a ``pool_id``. ``fields``: of the object that is created (with
    its children) or updated; null resets a field to its default.
    ``members``: the complete new members of the pool, by id. ``pools``: pools
    created along with a listener, by id. ``listener_id``: the listener whose
    default pool a new pool becomes. A failover does not change the document,
    but moves the load balancer to other nodes. ``bundles``: certificates that
    the fields name and that the controllers may not have, by name; sealed for
    them, and never stored with the change.
    """

    object: Kind
    action: Literal['create', 'update', 'delete', 'replace', 'failover']
    object_id: str | None
    load_balancer_id: NotRequired[str]
    pool_id: NotRequired[str]
    listener_id: NotRequired[str | None]
    fields: NotRequired[spec.Fields]
    members: NotRequired[dict[str, spec.Fields]]
    pools: NotRequired[dict[str, spec.Fields]]
    bundles: NotRequired[sealed.Bundles]


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
        doc['listeners'][key] = _merge('listener', {}, change['fields'])
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
          'healthmonitor': _health_monitor}


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
