# SPDX-License-Identifier: Apache-2.0
"""A document as Octavia's renderer for amphorae writes it.

To be run as a process of its own: importing Octavia registers its options with
oslo.config and changes defaults of oslo.db, for all tests of a process. It
reads a document as a line of JSON and writes the text likewise, until its
standard input ends.
"""

import json
import sys
import types

from octavia.common.jinja.haproxy.combined_listeners import jinja_cfg

ACTIVE = 'ACTIVE'
VERSION = ('2', '6')


def render(document, path):
    """Return the text of the load balancer.

    :param path: of a bundle's file, with NAME in place of its name.
    """
    def bundle(name):
        return path.replace('NAME', name)

    balancer = _balancer(document)
    pools = {key: _pool(key, pool) for key, pool in document['pools'].items()}
    listeners = [_listener(key, listener, balancer, pools)
                 for key, listener in document['listeners'].items()]
    certificates = {digit * 64: bundle(digit * 64) for digit in '0123'}
    for key, pool in document['pools'].items():
        certificates[key] = {
            name: bundle(pool[field]) for name, field in (
                ('client_cert', 'tls_bundle'), ('ca_cert', 'ca_bundle'),
                ('crl', 'crl_bundle')) if pool[field]}
    return jinja_cfg.JinjaTemplater(connection_logging=False).build_config(
        types.SimpleNamespace(
            id='', lb_network_ip='', vrrp_ip='', ha_ip='', vrrp_port_id='',
            ha_port_id='', role='', status='', vrrp_interface='',
            vrrp_priority=''),
        listeners, certificates, VERSION, None)


def _namespace(fields, **more):
    return types.SimpleNamespace(**{**fields, **more})


def _balancer(document):
    return types.SimpleNamespace(
        id=document['id'], project_id='p', topology='SINGLE', amphorae=[],
        enabled=document['admin_state_up'],
        vip=types.SimpleNamespace(ip_address=document['vip_address']),
        additional_vips=[types.SimpleNamespace(ip_address=address)
                         for address in document['additional_vips']])


def _listener(key, listener, balancer, pools):
    # The same as octavia.db.models.Listener.pools.
    used = {listener['default_pool_id'], *(
        policy['redirect_pool_id']
        for policy in listener['l7policies'].values()
        if policy['admin_state_up'] and policy['rules'])}
    return _namespace(
        listener, id=key, enabled=listener['admin_state_up'], peer_port=1025,
        load_balancer=balancer, connection_limit=(
            listener['connection_limit'] or -1),
        insert_headers=dict.fromkeys(listener['insert_headers'], 'true'),
        tls_certificate_id=listener['default_tls_bundle'],
        client_ca_tls_certificate_id=listener['client_ca_bundle'],
        client_crl_container_id=listener['client_crl_bundle'],
        default_pool=pools.get(listener['default_pool_id']),
        pools=[pool for pool_id, pool in pools.items() if pool_id in used],
        l7policies=[_policy(policy_id, policy, pools)
                    for policy_id, policy in sorted(
                        listener['l7policies'].items(),
                        key=lambda item: (item[1]['position'], item[0]))])


def _policy(key, policy, pools):
    return _namespace(
        policy, id=key, enabled=policy['admin_state_up'],
        provisioning_status=ACTIVE,
        redirect_pool=pools.get(policy['redirect_pool_id']),
        l7rules=[_namespace(
            rule, id=rule_id, enabled=rule['admin_state_up'],
            provisioning_status=ACTIVE)
            for rule_id, rule in policy['rules'].items()])


def _pool(key, pool):
    monitor = pool['healthmonitor']
    persistence = pool['session_persistence']
    return _namespace(
        pool, id=key, enabled=pool['admin_state_up'],
        provisioning_status=ACTIVE, operating_status='ONLINE',
        tls_certificate_id=pool['tls_bundle'],
        ca_tls_certificate_id=pool['ca_bundle'],
        crl_container_id=pool['crl_bundle'],
        session_persistence=persistence and _namespace(persistence),
        members=[_namespace(
            member, id=member_id, ip_address=member['address'],
            enabled=member['admin_state_up'], subnet_id=None,
            operating_status='ONLINE', provisioning_status=ACTIVE)
            for member_id, member in pool['members'].items()],
        health_monitor=monitor and _namespace(
            monitor, enabled=monitor['admin_state_up'],
            provisioning_status=ACTIVE, rise_threshold=monitor['max_retries'],
            fall_threshold=monitor['max_retries_down']))


if __name__ == '__main__':
    for line in sys.stdin:
        print(json.dumps(render(*json.loads(line))), flush=True)
