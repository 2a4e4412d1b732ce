# SPDX-License-Identifier: Apache-2.0
"""Additional instances of octavia-driver-agent's listeners, preloaded.

octavia-driver-agent forks a process for each message: statuses, statistics and
look-ups. Each of these creates a database engine, configures Octavia's models
and builds its statements: a third of a second of CPU before the first row is
written. This module does all of that once, in a process below
octavia-driver-agent that has Octavia's modules and configuration. Octavia's
own listeners then run in its children, at additional sockets, and fork
processes that have everything they need.

If an Octavia lacks the modules that this needs, there are no such listeners,
and controllers use octavia-driver-agent's own sockets.
"""

import gc
import importlib
import multiprocessing
from multiprocessing import connection
import os
import signal
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
from stevedore import driver

LOG = logging.getLogger(__name__)

KINDS = ('status', 'stats', 'get')

_LISTENER = 'octavia.api.drivers.driver_agent.driver_listener'
_UPDATER = 'octavia.api.drivers.driver_agent.driver_updater'
_GETTER = 'octavia.api.drivers.driver_agent.driver_get'
_STATISTICS = 'octavia.statistics.stats_base'
_DATABASE = 'octavia.db.api'
_NETWORK_DRIVERS = 'octavia.network.drivers'

# Seconds between two checks of octavia-driver-agent's event.
_CHECK_S = 0.5

# An id that no object has.
_NOBODY = '00000000-0000-0000-0000-000000000000'
_OBJECTS = ('members', 'healthmonitors', 'pools', 'l7rules', 'l7policies',
            'listeners', 'loadbalancers')


def paths(conf: cfg.ConfigOpts) -> dict[str, str]:
    """Return kind → path of the Unix socket, of the configured listeners."""
    sockets = {kind: getattr(conf.controller, f'preloaded_{kind}_socket')
               for kind in KINDS}
    return {kind: path for kind, path in sockets.items() if path}


def serve(sockets: dict[str, str], exit_event: Any) -> None:
    """Serve at Unix sockets until an event is set.

    :param sockets: see ``paths``.
    :param exit_event: octavia-driver-agent's.
    :raises Exception: the sockets cannot be served, now or at all.
    """
    # Only the event ends it, so that messages under way are answered.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for kind, path in sockets.items():
        if path == cfg.CONF.driver_agent[f'{kind}_socket_path']:
            raise ValueError(
                f'[controller] preloaded_{kind}_socket: {path} is '
                'octavia-driver-agent\'s own socket; use another path')
    importlib.import_module(_LISTENER)
    _prepare()
    LOG.info('Preloaded listeners serve %s.', ', '.join(sockets.values()))
    ended, end = os.pipe()
    fork = multiprocessing.get_context('fork')
    children = [fork.Process(target=_listen, args=(kind, path, ended, end))
                for kind, path in sockets.items()]
    try:
        for child in children:
            child.start()
        # If one ends by itself, all are started again.
        while not exit_event.is_set():
            if connection.wait([child.sentinel for child in children],
                               _CHECK_S):
                raise RuntimeError('a preloaded listener has ended')
    finally:
        os.close(end)
        os.close(ended)
        for child in children:
            if child.pid:
                child.join()


class _Ended:
    """The part of octavia-driver-agent's event that a listener uses.

    A process that is killed while it waits for a multiprocessing event makes
    the process hang that sets it. The end of a pipe has no such problem, and
    also occurs when the other process dies.
    """

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def wait(self) -> None:
        os.read(self._pipe, 1)


def _listen(kind: str, path: str, ended: int, end: int) -> None:
    os.close(end)
    cfg.CONF.set_override(f'{kind}_socket_path', path, group='driver_agent')
    module = importlib.import_module(_LISTENER)
    getattr(module, f'{kind}_listener')(_Ended(ended))


def _prepare() -> None:
    """Do the work that is common to all messages."""
    # For an object that does not exist, Octavia creates engine, models and
    # statements, and changes no row.
    updater = importlib.import_module(_UPDATER).DriverUpdater()
    for status in ({'operating_status': 'ONLINE'},
                   {'provisioning_status': 'ACTIVE'},
                   {'operating_status': 'ONLINE',
                    'provisioning_status': 'ACTIVE'},
                   {'provisioning_status': 'DELETED'}):
        for kind in _OBJECTS:
            updater.update_loadbalancer_status(
                {kind: [{'id': _NOBODY, **status}]})
    getter = importlib.import_module(_GETTER)
    for kind in _OBJECTS:
        getter.process_get({'object': kind, 'id': _NOBODY})
    importlib.import_module(_STATISTICS).update_stats_via_driver([])
    # A connection belongs to one process: each child opens its own.
    importlib.import_module(_DATABASE).get_engine().dispose()
    # Deletions need the network driver's modules; do not log in.
    driver.DriverManager(namespace=_NETWORK_DRIVERS,
                         name=cfg.CONF.controller_worker.network_driver,
                         invoke_on_load=False)
    gc.collect()
    gc.freeze()
