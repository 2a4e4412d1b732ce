# SPDX-License-Identifier: Apache-2.0
"""A load balancer with all below it, as one request to Octavia's API.

octavia-dashboard makes listener, pool, members and health monitor one after
the other, after it has answered the browser: if one of them is refused its
user is told nothing, and what was made before stays. In one request all is
made or nothing, and the refusal is the answer.

Octavia's API reference, "Create a Load Balancer": "fully populated".
"""

_BALANCER = ('name', 'description', 'vip_address', 'vip_subnet_id',
             'admin_state_up', 'flavor_id', 'availability_zone', 'provider')
_LISTENER = ('name', 'description', 'protocol', 'protocol_port',
             'connection_limit', 'admin_state_up', 'insert_headers',
             'timeout_client_data', 'timeout_member_connect',
             'timeout_member_data', 'timeout_tcp_inspect', 'allowed_cidrs',
             'tls_ciphers')
_POOL = ('name', 'description', 'protocol', 'lb_algorithm', 'admin_state_up',
         'session_persistence', 'tls_enabled', 'tls_ciphers')
_MEMBER = ('name', 'address', 'protocol_port', 'subnet_id', 'weight',
           'monitor_address', 'monitor_port', 'admin_state_up', 'backup')
_MONITOR = ('name', 'type', 'delay', 'timeout', 'max_retries',
            'max_retries_down', 'http_method', 'url_path', 'expected_codes',
            'admin_state_up')


def load_balancer(wizard, project_id):
    """The body of the request, below "loadbalancer".

    :param wizard: what octavia-dashboard's wizard submits: "loadbalancer",
        and where the user asked for them "listener", "pool", "members",
        "monitor" and "certificates", a list of references.
    """
    body = _given(wizard['loadbalancer'], _BALANCER)
    body['project_id'] = project_id
    if wizard.get('listener'):
        body['listeners'] = [_listener(wizard)]
    return body


def _listener(wizard):
    listener = _given(wizard['listener'], _LISTENER)
    if wizard.get('certificates'):
        default, *others = wizard['certificates']
        listener['default_tls_container_ref'] = default
        listener['sni_container_refs'] = others
    if wizard.get('pool'):
        listener['default_pool'] = _pool(wizard)
    return listener


def _pool(wizard):
    pool = _given(wizard['pool'], _POOL)
    if wizard.get('members'):
        pool['members'] = [_given(member, _MEMBER)
                           for member in wizard['members']]
    if (wizard.get('monitor') or {}).get('type'):
        pool['healthmonitor'] = _given(wizard['monitor'], _MONITOR)
    return pool


def _given(values, names):
    """Those that the user gave: an empty field of the form is none."""
    return {name: values[name] for name in names
            if values.get(name) not in (None, '')}
