# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ: the broker between controller and LB nodes.

Debian's `rabbitmq-server` wrapper, `rabbitmqctl` and the plug-ins each start
an Erlang machine of their own; without them the broker is up within seconds.
Users and virtual hosts are those that operators create for the product.
"""

import json
import shlex

from lab import paths
from lab import processes
from lab.control import certificates
from lab.control import mariadb
from lab.control import secret
from lab.ovn import hypervisors
from octavia_xdp_provider.controller import broker

NAME = 'rabbitmq'
PORT = 5672
TLS_PORT = 5671
# A user with all permissions, for tests.
USER = 'lab'
# More nodes than a lab starts with, for tests.
NODES = (*(f'lb{number}' for number in range(1, 9)),
         *(f'proxy{number}' for number in range(1, 5)))
SERVER = '/usr/lib/rabbitmq/bin/rabbitmq-server'
CONTROL = '/usr/lib/rabbitmq/bin/rabbitmqctl'
ERLANG_NODE = 'rabbit@localhost'


def url(lab):
    """Return the transport URL of USER, without TLS."""
    return _url(USER, secret.password(lab, 'rabbitmq'), PORT, '')


def driver_url(lab):
    """Return [DEFAULT] transport_url of the driver."""
    return _tls_url(lab, broker.DRIVER_USER, broker.CONTROL_VHOST)


def controller_url(lab):
    """Return [DEFAULT] transport_url of the controllers."""
    return _tls_url(lab, broker.CONTROLLER_USER, broker.CONTROL_VHOST)


def nodes_url(lab):
    """Return [nodes] transport_url of the controllers."""
    return _tls_url(lab, broker.CONTROLLER_USER, '{vhost}')


def node_url(lab, node):
    """Return [DEFAULT] transport_url of an LB node."""
    name = broker.node_vhost(node)
    return _tls_url(lab, name, name)


def hypervisor_url(lab, hypervisor):
    """Return [DEFAULT] transport_url of a hypervisor."""
    name = broker.host_vhost(hypervisor)
    return _tls_url(lab, name, name)


def control_command(lab):
    """Return a shell command for rabbitmqctl of this broker."""
    return shlex.join([
        'env', f'HOME={_directory(lab)}', f'RABBITMQ_NODENAME={ERLANG_NODE}',
        'RABBITMQ_CONF_ENV_FILE=/dev/null', CONTROL])


def tls_options(lab):
    """Return [oslo_messaging_rabbit] of all clients."""
    return {'ssl': True, 'ssl_ca_file': certificates.authority(lab)}


def _tls_url(lab, user, vhost):
    return _url(user, secret.derived(lab, 'rabbitmq', user), TLS_PORT, vhost)


def _url(user, password, port, vhost):
    return f'rabbit://{user}:{password}@{paths.CONTROL_ADDRESS}:{port}/{vhost}'


def _definitions(lab):
    """Return definitions like those of octavia-xdp-manage, and USER."""
    def password(user):
        return secret.derived(lab, 'rabbitmq', user)

    nodes = [broker.for_node(node, password(broker.node_vhost(node)))
             for node in NODES]
    hosts = [broker.for_host(host, password(broker.host_vhost(host)))
             for host in hypervisors.NAMES]
    everywhere = [broker.VirtualHost(vhost.name, {USER: broker.ALL}, False)
                  for grants in (*nodes, *hosts)
                  for vhost in grants.virtual_hosts]
    return broker.definitions(
        broker.for_control(password(broker.CONTROLLER_USER),
                           password(broker.DRIVER_USER)),
        *nodes, *hosts,
        broker.Grants(
            (broker.User(USER, secret.password(lab, 'rabbitmq')),),
            (broker.VirtualHost('/', {USER: broker.ALL}, False),
             broker.VirtualHost(broker.CONTROL_VHOST, {USER: broker.ALL},
                                False),
             *everywhere)))


def _directory(lab):
    return lab.host_directory(paths.CONTROL) / 'rabbitmq'


def start(lab):
    """Start a broker without plug-ins or data, and wait for it."""
    directory = _directory(lab)
    directory.mkdir()
    configuration = directory / 'rabbitmq.conf'
    configuration.touch(mode=0o600)
    definitions = directory / 'definitions.json'
    definitions.touch(mode=0o600)
    definitions.write_text(json.dumps(_definitions(lab)))
    configuration.write_text('\n'.join((
        f'listeners.tcp.management = {paths.CONTROL_ADDRESS}:{PORT}',
        f'listeners.tcp.local = 127.0.0.1:{PORT}',
        f'listeners.ssl.management = {paths.CONTROL_ADDRESS}:{TLS_PORT}',
        f'ssl_options.cacertfile = {certificates.authority(lab)}',
        f'ssl_options.certfile = {certificates.certificate(lab)}',
        f'ssl_options.keyfile = {certificates.key(lab)}',
        'ssl_options.verify = verify_none',
        f'load_definitions = {definitions}',
        '')))
    plugins = directory / 'enabled_plugins'
    plugins.write_text('[].\n')
    processes.start(lab, paths.CONTROL, NAME, [SERVER], env={
        'HOME': directory,
        'ERL_EPMD_ADDRESS': '127.0.0.1',
        'RABBITMQ_NODENAME': ERLANG_NODE,
        'RABBITMQ_DIST_PORT': 25672,
        'RABBITMQ_MNESIA_BASE': directory,
        'RABBITMQ_LOG_BASE': directory / 'log',
        'RABBITMQ_LOGS': '-',
        'RABBITMQ_CONFIG_FILE': configuration,
        'RABBITMQ_CONF_ENV_FILE': '/dev/null',
        'RABBITMQ_ENABLED_PLUGINS_FILE': plugins,
        # The script execs the Erlang machine instead of starting a child.
        'RUNNING_UNDER_SYSTEMD': 'true',
    }, ready=lambda: listening(lab))


def listening(lab):
    """Return whether the broker accepts connections, its last step."""
    return mariadb.listening(lab, paths.CONTROL_ADDRESS, TLS_PORT)
