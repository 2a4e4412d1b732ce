# SPDX-License-Identifier: Apache-2.0
"""Names of queues on the broker that a node's rights can list.

oslo.messaging gives queues for answers and for messages to all servers random
names. Whoever may declare queues of any name may declare exchanges of any
name, too, and RabbitMQ limits the number of queues of a virtual host alone.
"""

import importlib
import itertools
import re
from typing import Any

# A process has a few; numbers begin anew with it, and what its predecessor
# left in a queue is for requests that nobody waits for.
NUMBERS = 16
# Named in every target: the default is whatever the process has made of it,
# and octavia-api makes it "octavia".
EXCHANGE = 'octavia-xdp'
# Of the agents' servers.
NODE_TOPIC = 'octavia-xdp-agent'
HOST_TOPIC = 'octavia-xdp-host'
_GROUP = 'oslo_messaging_rabbit'


class Manager:
    """In place of oslo.messaging's, which keeps its counter in a file in
    /dev/shm, where every user of the machine may put another one first."""

    _numbers = itertools.count()

    def __init__(self, hostname: str, processname: str) -> None:
        self._host = hostname

    def get(self) -> str:
        return f'{self._host}:{next(self._numbers) % NUMBERS}'


def use(conf: Any, url: str | None, host: str) -> None:
    """Let a transport that is made next with this configuration use them."""
    messaging = importlib.import_module('oslo_messaging')
    if messaging.TransportURL.parse(conf, url).transport != 'rabbit':
        return
    driver = importlib.import_module('oslo_messaging._drivers.impl_rabbit')
    setattr(driver.amqpdriver, 'QManager', Manager)  # noqa: B010
    conf.register_opts(driver.rabbit_opts, group=_GROUP)
    conf.set_default('use_queue_manager', True, group=_GROUP)
    conf.set_default('hostname', host, group=_GROUP)


def pattern(host: str, topic: str) -> str:
    """A regular expression of all names that an agent declares.

    :param topic: of the agent's server.
    """
    name, server = re.escape(host), re.escape(topic)
    number = '|'.join(map(str, range(NUMBERS)))
    return (f'^({re.escape(EXCHANGE)}|{server}(_fanout|\\.{name})?|'
            f'(reply|{server}_fanout)_{name}:({number}))$')
