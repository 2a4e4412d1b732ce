# SPDX-License-Identifier: Apache-2.0
"""The wanted state of a load balancer: one document, and what changes it.

A document is plain JSON, so that it travels and is stored as it is::

    {"version": 1, "id": "<load balancer id>",
     "name": "", "project_id": "", "admin_state_up": true,
     "vip_address": "203.0.113.10", "vip_port_id": "", …,
     "flavor": {"encapsulation": "gue", …},
     "listeners": {"<id>": {"protocol": "TCP", "protocol_port": 80,
                            "allowed_cidrs": ["198.51.100.0/24"],
                            "default_pool_id": "<id>", …}},
     "pools": {"<id>": {"protocol": "TCP",
                        "lb_algorithm": "SOURCE_IP_PORT",
                        "session_persistence": {
                            "type": "SOURCE_IP",
                            "persistence_timeout": null,
                            "persistence_granularity": null}, …,
                        "members": {"<id>": {"address": "198.18.10.11",
                                             "protocol_port": 80,
                                             "weight": 1,
                                             "backup": false, …}},
                        "healthmonitor": {"id": "<id>", "type": "HTTP", …}}}}

Field names and values are Octavia's (common/translate.py), those of the
flavor are in common/flavor.py. Every function here is pure: it returns a new
document and leaves its argument alone. Which documents can be done is said
by common/rules.py.
"""

import copy

from octavia_xdp_provider.common import errors

VERSION = 1

# What the API leaves unset (or resets with null) means this.
DEFAULTS = {
    'loadbalancer': {'admin_state_up': True, 'flavor': {}},
    'listener': {'admin_state_up': True, 'default_pool_id': None,
                 'allowed_cidrs': None},
    'pool': {'admin_state_up': True, 'session_persistence': None},
    'member': {'admin_state_up': True, 'weight': 1, 'backup': False,
               'monitor_address': None, 'monitor_port': None},
    'healthmonitor': {'admin_state_up': True, 'max_retries_down': 3,
                      'http_method': 'GET', 'url_path': '/',
                      'expected_codes': '200', 'http_version': 1.0,
                      'domain_name': None},
}

PERSISTENCE = ('type', 'persistence_timeout', 'persistence_granularity')


def _with_defaults(kind, fields):
    result = dict(fields)
    for name, value in DEFAULTS[kind].items():
        if result.get(name) is None:
            result[name] = copy.copy(value)
    if kind == 'pool' and result['session_persistence']:
        given = result['session_persistence']
        result['session_persistence'] = {
            name: given.get(name) for name in PERSISTENCE}
    return result


def _complete_pool(tree):
    result = _with_defaults('pool', tree)
    result['members'] = {key: _with_defaults('member', value)
                         for key, value in tree.get('members', {}).items()}
    monitor = tree.get('healthmonitor')
    result['healthmonitor'] = (
        _with_defaults('healthmonitor', monitor) if monitor else None)
    return result


def document(load_balancer_id, tree):
    """A document from a translated tree (translate.load_balancer_tree)."""
    result = _with_defaults('loadbalancer', tree)
    result['version'] = VERSION
    result['id'] = load_balancer_id
    result['listeners'] = {
        key: _with_defaults('listener', value)
        for key, value in tree.get('listeners', {}).items()}
    result['pools'] = {key: _complete_pool(value)
                       for key, value in tree.get('pools', {}).items()}
    return result


def complete(doc):
    """A document with every field of this version, from an older one."""
    return document(doc['id'], doc)


def objects(doc):
    """Every object of the document, as a set of (kind, id)."""
    found = {('loadbalancer', doc['id'])}
    found.update(('listener', key) for key in doc['listeners'])
    for pool_id, pool in doc['pools'].items():
        found.add(('pool', pool_id))
        found.update(('member', key) for key in pool['members'])
        if pool['healthmonitor']:
            found.add(('healthmonitor', pool['healthmonitor']['id']))
    return found


def _pool(doc, pool_id):
    try:
        return doc['pools'][pool_id]
    except KeyError:
        raise errors.UnknownObject(f'pool {pool_id}') from None


def _merge(kind, old, fields):
    return _with_defaults(kind, {**old, **fields})


def _listener(doc, change):
    key = change['object_id']
    if change['action'] == 'delete':
        doc['listeners'].pop(key, None)
    elif change['action'] == 'create':
        doc['listeners'][key] = _merge('listener', {}, change['fields'])
        # A listener may bring its default pool along, as Octavia allows.
        for pool_id, tree in change.get('pools', {}).items():
            doc['pools'].setdefault(pool_id, _complete_pool(tree))
    elif key in doc['listeners']:
        doc['listeners'][key] = _merge(
            'listener', doc['listeners'][key], change['fields'])
    else:
        raise errors.UnknownObject(f'listener {key}')


def _pool_change(doc, change):
    key = change['object_id']
    if change['action'] == 'delete':
        doc['pools'].pop(key, None)
        for listener in doc['listeners'].values():
            if listener['default_pool_id'] == key:
                listener['default_pool_id'] = None
    elif change['action'] == 'create':
        doc['pools'][key] = _complete_pool(change['fields'])
        listener_id = change.get('listener_id')
        if listener_id in doc['listeners']:
            doc['listeners'][listener_id]['default_pool_id'] = key
    else:
        pool = _pool(doc, key)
        fields = dict(change['fields'])
        if fields.get('session_persistence') and pool['session_persistence']:
            # Octavia changes those of its fields that the request names.
            fields['session_persistence'] = {
                **pool['session_persistence'],
                **fields['session_persistence']}
        doc['pools'][key] = _merge('pool', pool, fields)


def _member(doc, change):
    pool = _pool(doc, change['pool_id'])
    key = change['object_id']
    if change['action'] == 'delete':
        pool['members'].pop(key, None)
    elif change['action'] == 'replace':
        pool['members'] = {
            member_id: _merge('member', pool['members'].get(member_id, {}),
                              fields)
            for member_id, fields in change['members'].items()}
    elif change['action'] == 'update' and key not in pool['members']:
        raise errors.UnknownObject(f'member {key}')
    else:
        pool['members'][key] = _merge(
            'member', pool['members'].get(key, {}), change['fields'])


def _health_monitor(doc, change):
    pool = _pool(doc, change['pool_id'])
    monitor = pool['healthmonitor'] or {}
    if change['action'] == 'delete':
        pool['healthmonitor'] = None
    elif change['action'] == 'update' and not monitor:
        raise errors.UnknownObject(f'healthmonitor {change["object_id"]}')
    else:
        pool['healthmonitor'] = _merge(
            'healthmonitor', monitor,
            dict(change['fields'], id=change['object_id']))


def _load_balancer(doc, change):
    doc.update(_merge('loadbalancer', doc, change['fields']))


_APPLY = {'loadbalancer': _load_balancer, 'listener': _listener,
          'pool': _pool_change, 'member': _member,
          'healthmonitor': _health_monitor}


def apply(doc, change):
    """The document after the change.

    :param change: ``{"object": kind, "action": "create" | "update" |
        "delete" | "replace", "object_id": id, "fields": {…}, …}`` as
        driver/provider.py builds it. Creating what exists or deleting what
        does not is no error, so that a repeated message does no harm.
    :raises UnknownObject: an update names an object that is not there.
    """
    result = copy.deepcopy(doc)
    _APPLY[change['object']](result, change)
    return result


def pools_of(doc, listener):
    """The pools whose members a listener sends traffic to."""
    pool = doc['pools'].get(listener['default_pool_id'])
    return [pool] if pool else []


def differences(doc, other):
    """What two documents of one load balancer disagree on, as texts.

    Only fields that ``doc`` knows are compared, and null equals absent:
    Octavia's database returns more fields, and nulls for what was never
    set.
    """
    found = []
    for kind, key in sorted(objects(doc) ^ objects(other)):
        found.append(f'{kind} {key}')

    def compare(path, mine, theirs):
        for name, value in mine.items():
            if name in ('listeners', 'pools', 'members', 'healthmonitor',
                        'version'):
                continue
            if value != theirs.get(name):
                found.append(f'{path}.{name}')

    compare('loadbalancer', doc, other)
    for key in doc['listeners'].keys() & other['listeners'].keys():
        compare(f'listener {key}', doc['listeners'][key],
                other['listeners'][key])
    for key in doc['pools'].keys() & other['pools'].keys():
        mine, theirs = doc['pools'][key], other['pools'][key]
        compare(f'pool {key}', mine, theirs)
        for member in mine['members'].keys() & theirs['members'].keys():
            compare(f'member {member}', mine['members'][member],
                    theirs['members'][member])
        if mine['healthmonitor'] and theirs['healthmonitor']:
            compare(f'healthmonitor of pool {key}', mine['healthmonitor'],
                    theirs['healthmonitor'])
    return found
