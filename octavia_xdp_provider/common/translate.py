# SPDX-License-Identifier: Apache-2.0
"""Octavia's provider objects as the plain fields of the wanted state.

The driver translates what the API hands over, the controller what
octavia-driver-agent returns; both must yield the same fields, so the code
stands here once. Input is an octavia-lib data model object or its
dictionary; attributes that are ``Unset`` are left out, so that an update
yields only the changed fields.
"""

from octavia_lib.api.drivers import data_models

# Fields of the wanted state, by object, in Octavia's own words. Everything
# else is refused before it gets here (driver/support.py) or has no effect
# on forwarding (description, tags).
LOAD_BALANCER_FIELDS = ('name', 'project_id', 'admin_state_up', 'vip_address',
                        'vip_port_id', 'vip_subnet_id', 'vip_network_id',
                        'flavor')
LISTENER_FIELDS = ('name', 'admin_state_up', 'protocol', 'protocol_port',
                   'default_pool_id')
POOL_FIELDS = ('name', 'admin_state_up', 'protocol', 'lb_algorithm')
MEMBER_FIELDS = ('name', 'admin_state_up', 'address', 'protocol_port',
                 'weight', 'subnet_id', 'monitor_address', 'monitor_port')
HEALTH_MONITOR_FIELDS = ('name', 'admin_state_up', 'type', 'delay', 'timeout',
                         'max_retries', 'max_retries_down', 'http_method',
                         'url_path', 'expected_codes', 'http_version',
                         'domain_name')


def attributes(provider_object):
    """The set attributes of a data model object or dictionary, one level.

    ``None`` stays: in an update it means "back to the default".
    """
    if isinstance(provider_object, dict):
        source = provider_object
    else:
        source = vars(provider_object)
    return {name: value for name, value in source.items()
            if not isinstance(value, data_models.UnsetType)
            and not name.startswith('_')}


def _pick(provider_object, names):
    given = attributes(provider_object)
    return {name: given[name] for name in names if name in given}


def load_balancer(provider_object):
    """Fields of a load balancer, without its listeners and pools."""
    fields = _pick(provider_object, LOAD_BALANCER_FIELDS)
    if 'flavor' in fields:
        fields['flavor'] = fields['flavor'] or {}
    return fields


def listener(provider_object):
    """Fields of a listener.

    A fully populated load balancer carries the default pool as an object
    only, so its id is taken from there.
    """
    fields = _pick(provider_object, LISTENER_FIELDS)
    pool = attributes(provider_object).get('default_pool')
    if pool and not fields.get('default_pool_id'):
        fields['default_pool_id'] = attributes(pool)['pool_id']
    return fields


def pool(provider_object):
    """Fields of a pool, without its members and health monitor."""
    return _pick(provider_object, POOL_FIELDS)


def member(provider_object):
    """Fields of a member."""
    return _pick(provider_object, MEMBER_FIELDS)


def health_monitor(provider_object):
    """Fields of a health monitor."""
    return _pick(provider_object, HEALTH_MONITOR_FIELDS)


def pool_tree(provider_object):
    """A pool with its members and health monitor, as in the wanted state."""
    given = attributes(provider_object)
    tree = pool(given)
    tree['members'] = {
        attributes(child)['member_id']: member(child)
        for child in given.get('members') or []}
    monitor = given.get('healthmonitor')
    tree['healthmonitor'] = None
    if monitor:
        tree['healthmonitor'] = dict(
            health_monitor(monitor),
            id=attributes(monitor)['healthmonitor_id'])
    return tree


def load_balancer_tree(provider_object):
    """A load balancer with everything below it, as in the wanted state."""
    given = attributes(provider_object)
    tree = load_balancer(given)
    tree['listeners'] = {}
    tree['pools'] = {}
    for child in given.get('pools') or []:
        tree['pools'][attributes(child)['pool_id']] = pool_tree(child)
    for child in given.get('listeners') or []:
        tree['listeners'][attributes(child)['listener_id']] = listener(child)
        default = attributes(child).get('default_pool')
        if default:
            default_id = attributes(default)['pool_id']
            tree['pools'].setdefault(default_id, pool_tree(default))
    return tree
