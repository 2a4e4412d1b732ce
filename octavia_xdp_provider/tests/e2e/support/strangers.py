# SPDX-License-Identifier: Apache-2.0
"""Another project in the lab's cloud, and what it does to harm the first one.

Each attacker works in a thread or process of its own for as long as a `with`
block lasts, at a bounded rate.
"""

import collections
import contextlib
import sys

from openstack import exceptions

from lab import background
from lab import cloud
from lab import namespaces
from lab import paths
from lab import processes
from lab.fabric import client


def create(lab, name):
    """A project and a user of this name, with the roles of a tenant.

    Use it within namespaces.inside(lab, paths.CONTROL), also what it returns:
    a function that removes both.
    """
    identity = cloud.connect(lab, cloud.ADMIN).identity
    project, user = cloud.create_tenant(lab, identity, name)

    def delete():
        identity.delete_user(user)
        identity.delete_project(project)
    return delete


class Caller(background.Background):
    """Calls a cloud's API in a loop, one call after the other.

    :param connect: makes what ``call`` gets, with sockets of its own.
    :param call: takes it and the number of the call.
    :ivar count: how often it ended how: "ok", or an HTTP status.
    """

    def __init__(self, lab, connect, call):
        super().__init__()
        self.count = collections.Counter()
        self._lab = lab
        self._connect = connect
        self._call = call

    def work(self):
        with namespaces.inside(self._lab, paths.CONTROL):
            connection = self._connect()
            number = 0
            while not self.ending.is_set():
                try:
                    self._call(connection, number)
                    result = 'ok'
                except exceptions.HttpException as error:
                    result = error.status_code
                self.count[result] += 1
                number += 1


class Sender:
    """A program of this folder that sends packets from one of the lab's hosts.
    It writes a line when it begins.

    :param name: of its process, and of its log.
    :param words: what the program takes.
    """

    def __init__(self, lab, host, module, name, *words):
        self._lab = lab
        self._host = host
        self._module = f'octavia_xdp_provider.tests.e2e.support.{module}'
        self._name = name
        self._words = words

    def __enter__(self):
        log = self._lab.logs / f'{self._name}.log'
        before = log.stat().st_size if log.exists() else 0
        processes.start(
            self._lab, self._host, self._name,
            [sys.executable, '-m', self._module, *self._words],
            env={'PYTHONPATH': paths.CHECKOUT},
            ready=lambda: log.stat().st_size > before)
        return self

    def __exit__(self, *_exception):
        processes.stop(self._lab, self._name)

    @property
    def is_alive(self):
        return processes.alive(self._lab, self._name)


class Flood(Sender):
    """Sends packets from the client's network, see flood.py.

    :param address: to which all of them go.
    :param port: where its service is.
    :param rate: packets a second.
    :param module: or many_flows.py.
    """

    def __init__(self, lab, address, port, rate, module='flood'):
        super().__init__(lab, client.CLIENT, module, f'{module}-{address}',
                         address, port, rate)


@contextlib.contextmanager
def all_of(attackers):
    """All of them at once."""
    with contextlib.ExitStack() as stack:
        for attacker in attackers:
            stack.enter_context(attacker)
        yield
