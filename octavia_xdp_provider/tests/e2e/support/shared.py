# SPDX-License-Identifier: Apache-2.0
"""Load balancers that the tests of a class share.

A test that needs what is shared makes it if there is none yet, so that one
test fails if it cannot be made. Each test puts right what it changes.
"""

import unittest

from lab import namespaces
from lab import paths
from lab.fabric import client
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base


class Shared(base.LabTestCase):
    """Beside, or below, what has the methods with which ``share`` makes it.
    """

    shared = None

    def setUp(self):
        super().setUp()
        if self.shared is None:
            # Its cleanups are the class's.
            owner = type(self)()
            owner.lab, owner.sdk = self.lab, self.sdk
            self.addClassCleanup(_clean_up, owner)
            type(self).shared = owner.share()

    def share(self):
        """Make what tests find in ``shared``."""
        raise NotImplementedError


class WebTestCase(Shared):
    """``OPTIONS``: of create_web for the load balancer."""

    OPTIONS = {}

    def setUp(self):
        super().setUp()
        self.balancer, self.listener, self.pool, self.made = self.shared

    def share(self):
        return self.create_web(**self.OPTIONS)

    def change_member(self, host, **fields):
        """Change a member, until the test is over."""
        member = self.made[host]
        self.addCleanup(self._change_member, member, {
            name: getattr(member, name) for name in fields})
        self._change_member(member, fields)

    def _change_member(self, member, fields):
        self.sdk.update_member(member.id, self.pool, **fields)
        self.wait_active(self.balancer)

    def change_listener(self, **fields):
        self.sdk.update_listener(self.listener.id, **fields)
        self.wait_active(self.balancer)

    def add_member(self, host):
        """A member that goes when the test is over."""
        member = self.create_member(self.pool, host)
        self.addCleanup(self.remove_member, member)
        self.wait_active(self.balancer)
        return member

    def remove_member(self, member):
        self.sdk.delete_member(member.id, self.pool)
        self.wait_active(self.balancer)

    def check_requests(self, number=50, hosts=topology.MEMBERS):
        """All are answered, and by just these."""
        answers = client.requests(self.lab, self.url(self.balancer), number)
        self.assertEqual([], answers.failures)
        self.assertEqual(set(hosts), set(answers.count))


def _clean_up(owner):
    with namespaces.inside(owner.lab, paths.CONTROL):
        if not owner.doCleanups():
            raise unittest.TestCase.failureException(
                f'what {owner} shared could not be removed')
