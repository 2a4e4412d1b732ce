# SPDX-License-Identifier: Apache-2.0
"""Translates Octavia's provider objects to fields of the wanted state.

The driver translates objects of the API, the controller those that
octavia-driver-agent returns; both must yield the same fields, so they share
this module. Input is an octavia-lib data model object or its dictionary;
``Unset`` attributes are left out, so that an update yields only the changed
fields.
"""

from collections.abc import Iterable
import ipaddress
from typing import Any

from octavia_lib.api.drivers import data_models

from octavia_xdp_provider.contracts import spec

# Fields of the wanted state by object, with Octavia's names. All others are
# refused earlier (driver/support.py) or do not affect forwarding (description,
# tags).
LOAD_BALANCER_FIELDS = ('name', 'project_id', 'admin_state_up', 'vip_address',
                        'vip_port_id', 'vip_subnet_id', 'vip_network_id',
                        'flavor')
_TLS_FIELDS = ('tls_ciphers', 'tls_versions', 'alpn_protocols')
LISTENER_FIELDS = (
    'name', 'admin_state_up', 'protocol', 'protocol_port', 'default_pool_id',
    'allowed_cidrs', 'timeout_client_data', 'timeout_member_data',
    'timeout_member_connect', 'timeout_tcp_inspect', 'connection_limit',
    'insert_headers', 'default_tls_container_ref', 'sni_container_refs',
    'client_authentication', 'client_ca_tls_container_ref',
    'client_crl_container_ref', *_TLS_FIELDS, 'hsts_max_age',
    'hsts_include_subdomains', 'hsts_preload')
NO_LIMIT = -1  # Octavia's value of connection_limit
ADDITIONAL_VIP_FIELDS = ('ip_address', 'port_id', 'subnet_id', 'network_id')
POOL_FIELDS = ('name', 'admin_state_up', 'protocol', 'lb_algorithm',
               'session_persistence', 'tls_enabled', 'tls_container_ref',
               'ca_tls_container_ref', 'crl_container_ref', *_TLS_FIELDS)
PERSISTENCE_FIELDS = (*spec.PERSISTENCE, 'cookie_name')
MEMBER_FIELDS = ('name', 'admin_state_up', 'address', 'protocol_port',
                 'weight', 'backup', 'subnet_id', 'monitor_address',
                 'monitor_port')
HEALTH_MONITOR_FIELDS = ('name', 'admin_state_up', 'type', 'delay', 'timeout',
                         'max_retries', 'max_retries_down', 'http_method',
                         'url_path', 'expected_codes', 'http_version',
                         'domain_name')
L7_POLICY_FIELDS = ('admin_state_up', 'action', 'position',
                    'redirect_pool_id', 'redirect_url', 'redirect_prefix',
                    'redirect_http_code')
L7_RULE_FIELDS = ('admin_state_up', 'type', 'compare_type', 'key', 'value',
                  'invert')


def attributes(provider_object: Any) -> spec.Fields:
    """Return the set attributes of a data model object or dictionary.

    ``None`` is kept: in an update it resets a field to its default.
    """
    if isinstance(provider_object, dict):
        source = provider_object
    else:
        source = vars(provider_object)
    return {name: value for name, value in source.items()
            if not isinstance(value, data_models.UnsetType)
            and not name.startswith('_')}


def _pick(provider_object: Any, names: Iterable[str]) -> spec.Fields:
    given = attributes(provider_object)
    return {name: given[name] for name in names if name in given}


def _canonical(fields: spec.Fields, *names: str) -> spec.Fields:
    """Replace addresses by their canonical spelling."""
    for name in names:
        if fields.get(name):
            fields[name] = str(ipaddress.ip_address(fields[name]))
    return fields


def load_balancer(provider_object: Any) -> spec.Fields:
    """Return fields of a load balancer, without its listeners and pools."""
    fields = _pick(provider_object, LOAD_BALANCER_FIELDS)
    given = attributes(provider_object)
    if 'flavor' in fields:
        fields['flavor'] = fields['flavor'] or {}
    # A look-up returns the zone's name instead of its metadata.
    if isinstance(given.get('availability_zone'), dict):
        fields['availability_zone'] = given['availability_zone']
    if 'additional_vips' in given:
        fields['additional_vips'] = sorted(
            (_canonical(_pick(vip, ADDITIONAL_VIP_FIELDS), 'ip_address')
             for vip in given['additional_vips'] or ()),
            key=lambda vip: str(vip.get('ip_address')))
    return _canonical(fields, 'vip_address')


def listener(provider_object: Any) -> spec.Fields:
    """Return fields of a listener.

    A fully populated load balancer has the default pool as an object only,
    so its id is taken from there.
    """
    fields = _pick(provider_object, LISTENER_FIELDS)
    if fields.get('connection_limit') == NO_LIMIT:
        fields['connection_limit'] = None
    pool = attributes(provider_object).get('default_pool')
    if pool and not fields.get('default_pool_id'):
        fields['default_pool_id'] = attributes(pool)['pool_id']
    if 'allowed_cidrs' in fields:
        # Sorted because Octavia keeps a set. None: all clients.
        fields['allowed_cidrs'] = sorted({
            str(ipaddress.ip_network(text, strict=False))
            for text in fields['allowed_cidrs'] or ()}) or None
    if 'insert_headers' in fields:
        fields['insert_headers'] = sorted(
            name for name, value in (fields['insert_headers'] or {}).items()
            if str(value).lower() == 'true')
    if 'sni_container_refs' in fields:
        # Sorted because Octavia's database keeps no order.
        fields['sni_container_refs'] = sorted(
            fields['sni_container_refs'] or ())
    return fields


def pool(provider_object: Any) -> spec.Fields:
    """Return fields of a pool, without its members and health monitor."""
    fields = _pick(provider_object, POOL_FIELDS)
    if 'session_persistence' in fields:
        # Octavia treats an empty one as none.
        fields['session_persistence'] = _pick(
            fields['session_persistence'] or {}, PERSISTENCE_FIELDS) or None
    return fields


def member(provider_object: Any) -> spec.Fields:
    """Return fields of a member."""
    return _canonical(_pick(provider_object, MEMBER_FIELDS), 'address',
                      'monitor_address')


def health_monitor(provider_object: Any) -> spec.Fields:
    """Return fields of a health monitor."""
    return _pick(provider_object, HEALTH_MONITOR_FIELDS)


def l7_policy(provider_object: Any) -> spec.Fields:
    """Return fields of an L7 policy, without its rules."""
    return _pick(provider_object, L7_POLICY_FIELDS)


def l7_rule(provider_object: Any) -> spec.Fields:
    """Return fields of a rule of an L7 policy."""
    return _pick(provider_object, L7_RULE_FIELDS)


def l7_policy_tree(provider_object: Any) -> spec.Fields:
    """Return an L7 policy with its rules."""
    tree = l7_policy(provider_object)
    tree['rules'] = {
        attributes(child)['l7rule_id']: l7_rule(child)
        for child in attributes(provider_object).get('rules') or []}
    return tree


def listener_tree(provider_object: Any) -> spec.Fields:
    """Return a listener with its L7 policies, without its default pool."""
    tree = listener(provider_object)
    policies = {
        attributes(child)['l7policy_id']: l7_policy_tree(child)
        for child in attributes(provider_object).get('l7policies') or []}
    if policies:
        tree['l7policies'] = policies
    return tree


def pool_tree(provider_object: Any) -> spec.Fields:
    """Return a pool with its members and health monitor."""
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


def load_balancer_tree(provider_object: Any) -> spec.Fields:
    """Return a load balancer with all its objects."""
    given = attributes(provider_object)
    tree = load_balancer(given)
    tree['listeners'] = {}
    tree['pools'] = {}
    for child in given.get('pools') or []:
        tree['pools'][attributes(child)['pool_id']] = pool_tree(child)
    for child in given.get('listeners') or []:
        tree['listeners'][attributes(child)['listener_id']] = (
            listener_tree(child))
        default = attributes(child).get('default_pool')
        if default:
            default_id = attributes(default)['pool_id']
            tree['pools'].setdefault(default_id, pool_tree(default))
    return tree
