# SPDX-License-Identifier: Apache-2.0
"""Predictable queue names, so that a node's broker permissions can list them.

oslo.messaging gives reply and fanout queues random names. A user with
permission to declare queues of any name may also declare exchanges of any
name, and RabbitMQ only limits the number of queues of a virtual host.
"""

import importlib
import itertools
import re
from typing import Any

# Upper bound of a process' queues. Numbers start over with each process;
# messages that its predecessor left in a queue answer abandoned requests.
NUMBERS = 16
# Set in every target: the default belongs to the process, and octavia-api
# sets it to "octavia".
EXCHANGE = 'octavia-xdp'
# Topics of the agents' servers.
NODE_TOPIC = 'octavia-xdp-agent'
HOST_TOPIC = 'octavia-xdp-host'
_GROUP = 'oslo_messaging_rabbit'


class Manager:
    """Replaces oslo.messaging's queue manager, which keeps its counter in a
    file in /dev/shm, where any local user may create that file first."""

    _numbers = itertools.count()

    def __init__(self, hostname: str, processname: str) -> None:
        self._host = hostname

    def get(self) -> str:
        return f'{self._host}:{next(self._numbers) % NUMBERS}'


def use(conf: Any, url: str | None, host: str) -> None:
    """Make later transports with this configuration use these names."""
    messaging = importlib.import_module('oslo_messaging')
    if messaging.TransportURL.parse(conf, url).transport != 'rabbit':
        return
    driver = importlib.import_module('oslo_messaging._drivers.impl_rabbit')
    setattr(driver.amqpdriver, 'QManager', Manager)  # noqa: B010
    conf.register_opts(driver.rabbit_opts, group=_GROUP)
    conf.set_default('use_queue_manager', True, group=_GROUP)
    conf.set_default('hostname', host, group=_GROUP)


def pattern(host: str, topic: str) -> str:
    """Return a regular expression for all names that an agent declares.

    :param topic: of the agent's server.
    """
    name, server = re.escape(host), re.escape(topic)
    number = '|'.join(map(str, range(NUMBERS)))
    return (f'^({re.escape(EXCHANGE)}|{server}(_fanout|\\.{name})?|'
            f'(reply|{server}_fanout)_{name}:({number}))$')
