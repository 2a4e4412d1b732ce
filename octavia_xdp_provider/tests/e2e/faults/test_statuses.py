# SPDX-License-Identifier: Apache-2.0
"""Each accepted call ends ACTIVE or ERROR, whatever fails in between."""

import os
import signal
import threading

from openstack import exceptions

from lab import processes
from lab.control import octavia as lab_octavia
from lab.control import rabbitmq
from lab.fabric import client
from lab.fabric import nodes
from octavia_xdp_provider.tests.e2e.support import shared
from octavia_xdp_provider.tests.support import form


class TestStatuses(shared.WebTestCase):

    def test_dead_agent_holds_nothing_up_for_ever(self):
        """A node whose agent is dead holds nobody up for ever, and stops
        announcing what was deleted when it comes back."""
        other, *_ = self.create_web(hosts=['member1'], monitor=None)
        self.killed('lb2', nodes.AGENT)
        self.change_member('member1', weight=9)
        self.change_member('member4', is_admin_state_up=False)
        self.assertEqual(4, self.enabled('lb2', self.balancer))
        self.sdk.delete_load_balancer(other.id, cascade=True)
        self.wait_gone(other)
        self.delete_balancer(self.create_balancer())
        self.wait_routes(other, ['lb2'])
        self.started('lb2', nodes.AGENT)
        self.wait('lb2 converged',
                  lambda: self.enabled('lb2', self.balancer) == 3)
        self.wait_routes(other, ())
        with self.datapath('lb1') as lb1, self.datapath('lb2') as lb2:
            key = self.key(self.balancer)
            self.assertEqual(lb1.table(key), lb2.table(key))
            self.wait('no service on lb2', lambda: (
                lb2.service(self.key(other)) is None))

    def test_update_while_rabbitmq_is_down_is_done_or_refused_as_a_whole(self):
        """What was accepted ends ACTIVE; what was refused changed nothing."""
        processes.kill(self.lab, rabbitmq.NAME)
        with client.Load(self.lab, self.url(self.balancer)) as load:
            accepted = True
            try:
                # The broker is down now: accepted once it is back, or
                # refused as a whole.
                broker = threading.Thread(target=self.start_rabbitmq)
                broker.start()
                self.sdk.update_member(self.made['member1'], self.pool,
                                       name='new')
            except exceptions.SDKException:
                accepted = False
            broker.join()
        self.assertEqual([], load.answers.failures)
        self.wait_active(self.balancer)
        self.when_answered(lambda: self.sdk.update_member(
            self.made['member2'], self.pool, weight=5))
        self.wait_active(self.balancer)
        self.assertIn('new' if accepted else 'member1',
                      self.statuses(self.pool))

    def start_rabbitmq(self):
        self.sleep(2)
        processes.restart(self.lab, rabbitmq.NAME, ready=lambda: (
            rabbitmq.listening(self.lab)))

    @form.in_long_form
    def test_update_without_a_controller_is_refused_in_bounded_time(self):
        """A refusal in bounded time, and nothing changed; then it works."""
        member = self.made['member3']
        supervisor, controller = self.controller_processes()
        processes.kill(self.lab, lab_octavia.SECOND_CONTROLLER)
        self.addCleanup(lab_octavia.start_second_controller, self.lab)
        os.kill(supervisor, signal.SIGSTOP)
        self.addCleanup(os.kill, supervisor, signal.SIGCONT)
        os.kill(controller, signal.SIGKILL)
        stored = self.stored()
        with self.assertRaises(exceptions.HttpException) as caught:
            self.sdk.update_member(member, self.pool, weight=9)
        self.assertIn('did not answer', str(caught.exception.details))
        os.kill(supervisor, signal.SIGCONT)
        self.wait('a new controller', lambda: (
            self.controller_pid() not in (None, controller)))
        self.wait_active(self.balancer)
        # What the API had given up on is not carried out later.
        self.assertEqual(stored, self.stored())
        self.when_answered(lambda: self.sdk.update_member(
            member, self.pool, weight=3))
        self.wait_active(self.balancer)

    def controller_processes(self):
        controller = self.controller_pid()
        with open(f'/proc/{controller}/status') as file:
            parent = next(int(line.split()[1]) for line in file
                          if line.startswith('PPid:'))
        return parent, controller
