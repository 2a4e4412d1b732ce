# SPDX-License-Identifier: Apache-2.0
"""Broker, database and configuration of the provider in a DevStack."""

import pathlib
import shutil

from oslo_config import cfg
import sqlalchemy

from lab import paths
from lab.control import ini
from lab.control import octavia
from lab.devstack import hypervisor
from octavia_xdp_provider.config import options as product_options
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema


def definitions(site):
    """Return RabbitMQ definitions for this and all further hosts."""
    return broker.definitions(
        broker.for_control(site.password(broker.CONTROLLER_USER),
                           site.password(broker.DRIVER_USER)),
        *(broker.for_node(node, site.password(broker.node_vhost(node)))
          for node in (*site.nodes, *site.remote_nodes)),
        *(broker.for_host(host, site.password(broker.host_vhost(host)))
          for host in site.hypervisors))


def removals(site):
    """Return arguments of rabbitmqctl that undo the import."""
    commands = [['delete_user', broker.CONTROLLER_USER],
                ['delete_user', broker.DRIVER_USER],
                ['delete_vhost', broker.CONTROL_VHOST]]
    for node in (*site.nodes, *site.remote_nodes):
        commands += _arguments(
            broker.commands_to_remove(broker.node_vhost(node)))
    for host in site.hypervisors:
        commands += _arguments(
            broker.commands_to_remove(broker.host_vhost(host)))
    return commands


def _arguments(commands):
    return [list(command.words) for command in commands]


def configure(site):
    """Write the configuration file of driver and controller."""
    path = site.configuration
    path.parent.mkdir(parents=True, exist_ok=True)
    ini.write(path, {
        'DEFAULT': {
            'host': 'control',
            'transport_url': site.transport_url(
                broker.CONTROLLER_USER, broker.CONTROL_VHOST),
            'use_stderr': True,
            'debug': site.value('OCTAVIA_XDP_DEBUG'),
        },
        'nodes': {'transport_url': site.transport_url(
            broker.CONTROLLER_USER, '{vhost}')},
        'database': {'connection': site.value('OCTAVIA_XDP_DATABASE_URL')},
        # Tempest's VIPs are in networks of the tests' projects.
        'vip': {'allowed_networks': paths.VIP_NETWORKS, 'any_network': True},
        'members': {'allowed_networks':
                    site.value('OCTAVIA_XDP_MEMBER_NETWORKS')},
        'controller': _sockets(site),
        'octavia': {
            'auth_type': 'password',
            'auth_url': site.value('OCTAVIA_XDP_AUTH_URL'),
            'username': broker.CONTROL_VHOST,
            'password': site.password(broker.CONTROL_VHOST),
            'user_domain_name': 'Default',
            'project_name': site.value('OCTAVIA_XDP_PROJECT'),
            'project_domain_name': 'Default',
            'region_name': site.value('OCTAVIA_XDP_REGION'),
        },
        'neutron': {'auth_section': 'octavia',
                    'region_name': site.value('OCTAVIA_XDP_REGION')},
    }, hypervisor.controller_options(site))
    shutil.chown(path, site.user)


def register(site):
    """Register LB nodes and hypervisors in the controller's tables."""
    store = queries.Store(schema.context_manager(product_options.load(
        config_files=[str(site.configuration)])))
    for node in (*site.nodes, *site.remote_nodes):
        store.nodes.register(node)
    for host in site.hypervisors:
        store.hypervisors.register(host)


def drop_database(site):
    """Delete the controller's database.

    :raises LabError: the server does not answer or refuses it.
    """
    url = sqlalchemy.engine.make_url(site.value('OCTAVIA_XDP_DATABASE_URL'))
    name = site.value('OCTAVIA_XDP_DATABASE')
    try:
        with sqlalchemy.create_engine(
                url.set(database='')).begin() as connection:
            connection.execute(
                sqlalchemy.text(f'DROP DATABASE IF EXISTS `{name}`'))
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise paths.LabError(f'dropping {name}: {error}') from error


def enabled_drivers(value):
    """Add the provider to [api_settings] enabled_provider_drivers.

    :param value: the present value; '' for Octavia's default.
    """
    drivers = [driver.strip() for driver in value.split(',')
               if driver.strip()]
    if not any(driver.partition(':')[0] == octavia.XDP
               for driver in drivers):
        drivers.append(f'{octavia.XDP}:{octavia.DESCRIPTIONS[octavia.XDP]}')
    return ','.join(drivers)


def disabled_drivers(value):
    """Remove the provider from [api_settings] enabled_provider_drivers."""
    return ','.join(driver.strip() for driver in value.split(',')
                    if driver.strip()
                    and driver.strip().partition(':')[0] != octavia.XDP)


def _sockets(site):
    """Return the sockets of octavia-driver-agent that octavia.conf sets."""
    sections = {}
    path = pathlib.Path(site.value('OCTAVIA_CONF'))
    cfg.ConfigParser(str(path), sections).parse()
    agent = sections.get('driver_agent', {})
    return {f'{kind}_socket': agent[f'{kind}_socket_path'][-1]
            for kind in octavia.SOCKETS if f'{kind}_socket_path' in agent}
