# SPDX-License-Identifier: Apache-2.0
"""One of two controllers is killed; the other one goes on."""

import threading

from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.tests.functional.support import control
from octavia_xdp_provider.tests.functional.support import controller_process

NUMBER = 6


class Held:
    """Octavia as the process sees it that is to die: whoever sends statuses
    gets no answer, and nothing comes of it."""

    def __init__(self, octavia):
        self._octavia = octavia
        self.sending = threading.Semaphore(0)
        self.end = threading.Event()

    def document(self, key):
        return self._octavia.document(key)

    def tree(self, key):
        return self._octavia.tree(key)

    def provisioning_status(self, key):
        return self._octavia.provisioning_status(key)

    def set_statistics(self, listeners):
        self._octavia.set_statistics(listeners)

    def stop(self):
        """The process ends."""

    def set_statuses(self, message):
        self.sending.release()
        self.end.wait()
        raise errors.OctaviaUnavailable('the caller was killed')


class TestTwoControllers(control.ControlTestCase):

    def start_process(self):
        """A controller of its own. Returns process and its Octavia."""
        octavia = Held(self.octavia)
        self.addCleanup(octavia.end.set)
        return controller_process.start(self, octavia), octavia

    def test_what_a_killed_one_was_at_is_done_by_the_other(self):
        process, octavia = self.start_process()
        node = self.node()
        node.start()
        keys = []
        for number in range(1, NUMBER + 1):
            balancer = self.balancer(address=f'203.0.113.{number}')
            keys.append(balancer.loadbalancer_id)
            self.driver.loadbalancer_create(balancer)
            self.commit(keys[-1])
        # It has placed some, the node has done them, and it is sending.
        self.assertTrue(octavia.sending.acquire(timeout=60))
        # A slow machine may let it expire between two renewals.
        self.wait('leader', lambda: (
            self.store.lease('duty') or ('',))[0].startswith('first:'))
        self.start_controller()
        process.kill()
        process.wait()
        self.assertEqual({}, self.octavia.statuses)
        for key in keys:
            self.wait_until_active(key)
        self.assertEqual(set(keys), set(node.documents))
        self.wait('empty queue', lambda: not self.store.marked(keys))
        self.wait('new leader', lambda: (
            self.store.lease('duty') or ('',))[0].startswith('controller:'))
        # What comes now is done as ever.
        self.create(address='203.0.113.99')
