# SPDX-License-Identifier: Apache-2.0
"""Neutron without agents: networks, subnets and ports.

They are database records only; with ML2/OVN hypervisors implement them.
"""

import json

from lab import paths
from lab import processes
from lab.control import ini
from lab.control import keystone
from lab.control import mariadb
from lab.control import rabbitmq
from lab.control import server
from lab.ovn import central
from lab.ovn import packages

NAME = 'neutron'
PORT = 9696
URL = f'http://{paths.CONTROL_ADDRESS}:{PORT}'
# UDP, Geneve with its options, and the inner Ethernet header. With IPv4's 20
# bytes they leave tenants an MTU of 1,442 of 1,500.
_GENEVE_HEADER = 38

_OVN = {
    'DEFAULT': {'service_plugins': 'ovn-router,qos,trunk'},
    'ml2': {
        'type_drivers': 'local,flat,geneve',
        'tenant_network_types': 'geneve',
        'mechanism_drivers': 'ovn',
    },
    'ml2_type_flat': {'flat_networks': central.PHYSICAL_NETWORK},
    'ml2_type_geneve': {'vni_ranges': '1:65535',
                        'max_header_size': _GENEVE_HEADER},
    'ovn': {
        'ovn_nb_connection': central.NORTHBOUND.url,
        'ovn_sb_connection': central.SOUTHBOUND.url,
        # OVN's databases are changed only by this Neutron.
        'neutron_sync_mode': 'off',
    },
}


# What a service may read in addition to Neutron's default policy.
_POLICY = {
    'get_security_group':
        '(rule:admin_only) or (role:reader and project_id:%(project_id)s) or '
        'rule:shared_security_group or rule:service_api',
    'get_security_group_rule':
        '(rule:admin_only) or (role:reader and rule:sg_owner) or '
        'rule:service_api',
    'get_router':
        '(rule:admin_only) or (role:reader and project_id:%(project_id)s) or '
        'rule:service_api',
    'get_rbac_policy':
        '(rule:admin_only) or (role:reader and project_id:%(project_id)s) or '
        'rule:service_api',
    # Nova sets it; in the lab the administrator does.
    'update_port:binding:profile': 'rule:admin_only or rule:service_api',
}


def configure(lab, ovn=False):
    """Write neutron.conf.

    :param ovn: with the mechanism driver of OVN; its databases must run.
    """
    directory = _directory(lab)
    directory.mkdir(exist_ok=True)
    (directory / 'lock').mkdir(exist_ok=True)
    policy = directory / 'policy.yaml'
    policy.write_text(json.dumps(_POLICY))
    ini.write(_configuration(lab), {
        'DEFAULT': {
            'use_stderr': True,
            'core_plugin': 'ml2',
            'service_plugins': 'router,qos',
            'auth_strategy': 'keystone',
            'transport_url': 'fake://',
            'state_path': directory,
            'api_paste_config': paths.VENV / 'etc/neutron/api-paste.ini',
            'notify_nova_on_port_status_changes': False,
            'notify_nova_on_port_data_changes': False,
        },
        'database': {'connection': mariadb.url(lab, 'neutron')},
        'keystone_authtoken': keystone.token_options(lab, 'neutron'),
        'oslo_concurrency': {'lock_path': directory / 'lock'},
        'oslo_policy': {'policy_file': policy},
        'ml2': {
            'type_drivers': 'local,flat',
            'tenant_network_types': 'local',
            'mechanism_drivers': '',
            # For each VIP Octavia asks for dns-integration, and without it
            # lists all extensions.
            'extension_drivers': 'port_security,qos,dns',
        },
    }, {**_OVN, 'oslo_messaging_notifications': {
        'driver': 'messagingv2', 'transport_url': rabbitmq.url(lab),
    }} if ovn else {})


def listener_options(lab, options):
    """Return options of a listener to Neutron's notifications.

    :param options: its other options.
    """
    return {'zero_touch': {**options.get('zero_touch', {}),
                           'notification_transport_url': rabbitmq.url(lab)}}


def migrate(lab):
    """Create the tables."""
    processes.run(lab, paths.CONTROL, [
        paths.VENV / 'bin' / 'neutron-db-manage',
        '--config-file', _configuration(lab), 'upgrade', 'heads'])


def start(lab):
    """Start the API server."""
    server.start(lab, NAME, 'neutron', PORT, env={
        'OS_NEUTRON_CONFIG_DIR': _directory(lab),
        'OS_NEUTRON_CONFIG_FILES': 'neutron.conf',
        # Neutron must know the number of gunicorn's workers. Without it
        # ML2/OVN misses events of ports that come up, while the API looks
        # healthy.
        'ASGI_WORKERS': server.WORKERS,
        # ML2/OVN runs ovsdb-client.
        **packages.search_paths(),
        # It stores the time of its start there, by its parent's process id.
        'TMPDIR': _directory(lab),
    })


def stop(lab):
    """Stop the API server."""
    processes.stop(lab, NAME)


def _directory(lab):
    return lab.host_directory(paths.CONTROL) / NAME


def _configuration(lab):
    return _directory(lab) / 'neutron.conf'
