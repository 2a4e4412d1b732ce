# SPDX-License-Identifier: Apache-2.0
"""Reloads and deaths of HAProxy and of its launcher refuse nobody."""

import os
import signal

from octavia_xdp_provider.tests.functional.support import proxies


class TestRefusesNobody(proxies.ProxiesCase):
    """Connections while HAProxy is changed, dies, or nobody watches it."""

    def setUp(self):
        super().setUp()
        self.start_launcher()
        self.start_member()
        self.pid = self.serve()['pid']

    def worker(self):
        """Return the pid of the one worker, once there is one."""
        workers = self.wait('worker', lambda: [
            pid for pids in self.processes().values() for pid in pids
            if proxies.status(pid)['PPid'] == str(self.state()['pid'])])
        return workers[0]

    def test_reload(self):
        with proxies.Requests(self) as requests:
            for number in range(5):
                requests.wait_for(40)
                answer = f'answer-{number}'
                state = self.serve(proxies.configuration(answer))
                self.assertEqual((200, answer), self.get())
        self.assertEqual(([], []), (requests.refused, requests.broken))
        self.assertEqual((self.pid, 0), (state['pid'], state['restarts']))

    def test_new_socket(self):
        with proxies.Requests(self) as requests:
            requests.wait_for(40)
            state = self.serve(
                proxies.configuration('two', binds=3), sockets=(
                    (proxies.VIP, 80), (proxies.VIP, 8080),
                    (proxies.VIP_V6, 80)))
            requests.wait_for(40)
            for address, port in ((proxies.VIP, 8080), (proxies.VIP_V6, 80)):
                self.assertEqual((200, 'two'), self.get(address, port))
            self.wait('end of the first generation', lambda: len(
                self.processes()) == 1)
            self.serve(proxies.configuration('three'))
            requests.wait_for(40)
        self.assertEqual(([], []), (requests.refused, requests.broken))
        self.assertNotEqual(self.pid, state['pid'])
        self.wait('end of the second', lambda: len(self.processes()) == 1)
        self.assertRaises(ConnectionRefusedError, self.get, proxies.VIP, 8080)

    def test_death(self):
        with proxies.Requests(self) as requests:
            for restarts, victim in enumerate((
                    self.worker, lambda: self.state()['pid'], self.worker,
                    lambda: self.state()['pid']), 1):
                requests.wait_for(40)
                os.kill(victim(), signal.SIGKILL)
                self.wait_state(restarts=restarts, phase='running',
                                error=None)
            requests.wait_for(40)
        self.assertEqual([], requests.refused)
        # In flight.
        self.assertLessEqual(len(requests.broken), 4)

    def test_death_of_the_launcher(self):
        with proxies.Requests(self) as requests:
            before = self.processes()
            for number in range(3):
                requests.wait_for(40)
                self.kill_launcher()
                requests.wait_for(40)
                self.assertEqual(before, self.processes())
                # It is changed while nobody watches.
                text = proxies.configuration(f'answer-{number}')
                self.want(text)
                self.start_launcher(wait=False)
                state = self.serve(text)
                self.assertEqual(self.pid, state['pid'])
                self.wait('old worker', lambda: len(
                    self.processes()['1']) == 2)
                before = self.processes()
        self.assertEqual(([], []), (requests.refused, requests.broken))
        self.assertEqual({'1'}, before.keys())

    def test_death_after_that_of_the_launcher(self):
        with proxies.Requests(self) as requests:
            requests.wait_for(40)
            self.kill_launcher()
            self.start_launcher(wait=False)
            # Its sockets came back from the process that it dies with.
            self.serve(proxies.configuration('two'))
            os.kill(self.pid, signal.SIGKILL)
            self.wait_state(restarts=1, phase='running', error=None)
            requests.wait_for(40)
        self.assertEqual([], requests.refused)

    def test_refused_configuration(self):
        with proxies.Requests(self) as requests:
            requests.wait_for(40)
            self.want(proxies.configuration() + '    nonsense here\n')
            state = self.wait_state(phase='refused')
            requests.wait_for(40)
            os.kill(self.pid, signal.SIGKILL)
            self.wait_state(phase='refused', restarts=1, listening=True)
            requests.wait_for(40)
        self.assertIn("unknown keyword 'nonsense'", state['error'])
        self.assertEqual(self.pid, state['pid'])
        self.assertEqual([], requests.refused)
        self.assertEqual({(200, 'one')}, set(requests.answers))
        self.serve(proxies.configuration('two'))
        self.assertEqual((200, 'two'), self.get())
