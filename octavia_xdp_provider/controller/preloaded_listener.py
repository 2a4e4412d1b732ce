# SPDX-License-Identifier: Apache-2.0
"""Octavia's listener for statuses once more, prepared for what it does.

octavia-driver-agent forks a process for each message of statuses. Each makes
its database engine, configures Octavia's models and builds the statements
anew: a third of a second of CPU before the first row is written. Here all of
that is done once, in a process below octavia-driver-agent that has Octavia's
modules and configuration, and then Octavia's own listener runs in it, at a
socket beside the other. Its children fork with what they need.

Nothing else is Octavia's but that octavia-driver-agent has loaded it. Where
an Octavia has no such modules there is no such listener, and controllers use
the socket that is there in any case.
"""

import gc
import importlib
import signal
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
from stevedore import driver

LOG = logging.getLogger(__name__)

_LISTENER = 'octavia.api.drivers.driver_agent.driver_listener'
_UPDATER = 'octavia.api.drivers.driver_agent.driver_updater'
_DATABASE = 'octavia.db.api'
_NETWORK_DRIVERS = 'octavia.network.drivers'

# No object has this id.
_NOBODY = '00000000-0000-0000-0000-000000000000'
_KINDS = ('members', 'healthmonitors', 'pools', 'listeners', 'loadbalancers')


def serve(path: str, exit_event: Any) -> None:
    """Serve statuses at a Unix socket until an event is set.

    :param exit_event: octavia-driver-agent's.
    :raises Exception: it cannot be served, now or at all.
    """
    # The event ends it; a message that is under way is answered.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if path == cfg.CONF.driver_agent.status_socket_path:
        raise ValueError(f'[controller] preloaded_status_socket: {path} is '
                         'that of octavia-driver-agent; name another one')
    listener = importlib.import_module(_LISTENER)
    _prepare()
    cfg.CONF.set_override('status_socket_path', path, group='driver_agent')
    LOG.info('Statuses are taken at %s as well, by processes that are '
             'prepared.', path)
    listener.status_listener(exit_event)


def _prepare() -> None:
    """Do what each message would do first."""
    updater = importlib.import_module(_UPDATER).DriverUpdater()
    # Of objects that nobody has: so Octavia makes engine, models and
    # statements, and changes no row.
    for status in ({'operating_status': 'ONLINE'},
                   {'provisioning_status': 'ACTIVE'},
                   {'operating_status': 'ONLINE',
                    'provisioning_status': 'ACTIVE'},
                   {'provisioning_status': 'DELETED'}):
        for kind in _KINDS:
            updater.update_loadbalancer_status(
                {kind: [{'id': _NOBODY, **status}]})
    # A connection belongs to one process: each child makes its own.
    importlib.import_module(_DATABASE).get_engine().dispose()
    # What deletions need, without signing in.
    driver.DriverManager(namespace=_NETWORK_DRIVERS,
                         name=cfg.CONF.controller_worker.network_driver,
                         invoke_on_load=False)
    gc.collect()
    gc.freeze()
