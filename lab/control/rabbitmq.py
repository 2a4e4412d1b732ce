# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ: the broker between controller and LB nodes.

Debian's `rabbitmq-server` wrapper, `rabbitmqctl` and the plug-ins each start
an Erlang machine of their own; without them the broker is up within seconds.
"""

from lab import paths
from lab import processes
from lab.control import mariadb
from lab.control import secret

NAME = 'rabbitmq'
PORT = 5672
USER = 'lab'
SERVER = '/usr/lib/rabbitmq/bin/rabbitmq-server'


def url(lab):
    """The transport URL, good on the control host and on every LB node."""
    password = secret.password(lab, 'rabbitmq')
    return f'rabbit://{USER}:{password}@{paths.CONTROL_ADDRESS}:{PORT}/'


def start(lab):
    """Start a broker without plug-ins or any data, and wait for it."""
    directory = lab.host_directory(paths.CONTROL) / 'rabbitmq'
    directory.mkdir()
    configuration = directory / 'rabbitmq.conf'
    configuration.touch(mode=0o600)
    configuration.write_text('\n'.join((
        f'listeners.tcp.management = {paths.CONTROL_ADDRESS}:{PORT}',
        f'listeners.tcp.local = 127.0.0.1:{PORT}',
        f'default_user = {USER}',
        f'default_pass = {secret.password(lab, "rabbitmq")}',
        '')))
    plugins = directory / 'enabled_plugins'
    plugins.write_text('[].\n')
    processes.start(lab, paths.CONTROL, NAME, [SERVER], env={
        'HOME': directory,
        'ERL_EPMD_ADDRESS': '127.0.0.1',
        'RABBITMQ_NODENAME': 'rabbit@localhost',
        'RABBITMQ_DIST_PORT': 25672,
        'RABBITMQ_MNESIA_BASE': directory,
        'RABBITMQ_LOG_BASE': directory / 'log',
        'RABBITMQ_LOGS': '-',
        'RABBITMQ_CONFIG_FILE': configuration,
        'RABBITMQ_CONF_ENV_FILE': '/dev/null',
        'RABBITMQ_ENABLED_PLUGINS_FILE': plugins,
        # The script becomes the Erlang machine instead of its parent.
        'RUNNING_UNDER_SYSTEMD': 'true',
    }, ready=lambda: listening(lab))


def listening(lab):
    """Whether the broker takes connections, its very last step."""
    return mariadb.listening(lab, paths.CONTROL_ADDRESS, PORT)
