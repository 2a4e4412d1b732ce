# SPDX-License-Identifier: Apache-2.0
"""Octavia's listeners once more, prepared for what they do.

octavia-driver-agent forks a process for each message: of statuses, of
statistics, and for each look-up. Each makes its database engine, configures
Octavia's models and builds the statements anew: a third of a second of CPU
before the first row is written. Here all of that is done once, in a process
below octavia-driver-agent that has Octavia's modules and configuration, and
then Octavia's own listeners run in children of it, at sockets beside the
others. Their children fork with what they need.

Nothing else is Octavia's but that octavia-driver-agent has loaded it. Where
an Octavia has no such modules there are no such listeners, and controllers
use the sockets that are there in any case.
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

# Between two looks at octavia-driver-agent's event.
_LOOK_S = 0.5

# No object has this id.
_NOBODY = '00000000-0000-0000-0000-000000000000'
_OBJECTS = ('members', 'healthmonitors', 'pools', 'listeners',
            'loadbalancers')


def paths(conf: cfg.ConfigOpts) -> dict[str, str]:
    """Where listeners are wanted: kind → path of a Unix socket."""
    found = {kind: getattr(conf.controller, f'preloaded_{kind}_socket')
             for kind in KINDS}
    return {kind: path for kind, path in found.items() if path}


def serve(sockets: dict[str, str], exit_event: Any) -> None:
    """Serve at Unix sockets until an event is set.

    :param sockets: see ``paths``.
    :param exit_event: octavia-driver-agent's.
    :raises Exception: they cannot be served, now or at all.
    """
    # The event ends it; a message that is under way is answered.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for kind, path in sockets.items():
        if path == cfg.CONF.driver_agent[f'{kind}_socket_path']:
            raise ValueError(
                f'[controller] preloaded_{kind}_socket: {path} is that of '
                'octavia-driver-agent; name another one')
    importlib.import_module(_LISTENER)
    _prepare()
    LOG.info('Messages are taken at %s as well, by processes that are '
             'prepared.', ', '.join(sockets.values()))
    ended, end = os.pipe()
    fork = multiprocessing.get_context('fork')
    children = [fork.Process(target=_listen, args=(kind, path, ended, end))
                for kind, path in sockets.items()]
    try:
        for child in children:
            child.start()
        # One that ends by itself takes the others along, and all are started
        # again.
        while not exit_event.is_set():
            if connection.wait([child.sentinel for child in children],
                               _LOOK_S):
                raise RuntimeError('a preloaded listener has ended')
    finally:
        os.close(end)
        os.close(ended)
        for child in children:
            if child.pid:
                child.join()


class _Ended:
    """As much of octavia-driver-agent's event as a listener asks for.

    Who is killed while he waits for an event of multiprocessing makes the
    process hang that sets it. Here that is the end of a pipe, which also
    comes when the other process dies.
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
    """Do what each message would do first."""
    # Of objects that nobody has: so Octavia makes engine, models and
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
    # A connection belongs to one process: each child makes its own.
    importlib.import_module(_DATABASE).get_engine().dispose()
    # What deletions need, without signing in.
    driver.DriverManager(namespace=_NETWORK_DRIVERS,
                         name=cfg.CONF.controller_worker.network_driver,
                         invoke_on_load=False)
    gc.collect()
    gc.freeze()
