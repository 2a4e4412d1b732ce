# SPDX-License-Identifier: Apache-2.0
"""Neutron without agents: networks, subnets and ports, as records only."""

from lab import paths
from lab import processes
from lab.control import ini
from lab.control import keystone
from lab.control import mariadb
from lab.control import server

NAME = 'neutron'
PORT = 9696
URL = f'http://{paths.CONTROL_ADDRESS}:{PORT}'


def configure(lab):
    """Write neutron.conf."""
    directory = _directory(lab)
    directory.mkdir(exist_ok=True)
    (directory / 'lock').mkdir(exist_ok=True)
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
        'ml2': {
            'type_drivers': 'local,flat',
            'tenant_network_types': 'local',
            'mechanism_drivers': '',
            'extension_drivers': 'port_security,qos',
        },
    })


def migrate(lab):
    """Make the tables."""
    processes.run(lab, paths.CONTROL, [
        paths.VENV / 'bin' / 'neutron-db-manage',
        '--config-file', _configuration(lab), 'upgrade', 'heads'])


def start(lab):
    """Start the API server."""
    server.start(lab, NAME, 'neutron', PORT, env={
        'OS_NEUTRON_CONFIG_DIR': _directory(lab),
        'OS_NEUTRON_CONFIG_FILES': 'neutron.conf',
    })


def _directory(lab):
    return lab.host_directory(paths.CONTROL) / NAME


def _configuration(lab):
    return _directory(lab) / 'neutron.conf'
