# SPDX-License-Identifier: Apache-2.0
"""Run an operator's commands while a controller and nodes work."""

import threading
from unittest import mock

from octavia_xdp_provider.controller import duty
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.manage import waiting
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.manage import base


class OperatorTestCase(base.ManageTestCase):
    """Nodes that apply every change, and a controller without Octavia."""

    def setUp(self):
        super().setUp()
        self.configure('[placement]\ndrain_time = 0.01\nreplicas = 1\n'
                       'rebalance_moves_max = 0\n')
        self.conf.reload_config_files()
        self.enterContext(mock.patch.object(waiting, 'POLL_S', 0.01))
        self.scheduler = service.Scheduler(self.conf, self.store)
        self.duty = duty.Duty(
            self.conf, self.store, duty.Leadership(self.store, 'test', 60),
            self.scheduler, lambda hosts: None, lambda: None)
        self.epoch = 0
        self.announcing = True
        self.open_slots = None  # messages.OpenSlots of all nodes

    def create(self, key, *hosts, name='web', number=10):
        self.store.load_balancers.create(dict(
            unit.document(), id=key, name=name,
            vip_address=f'203.0.113.{number}', pools={}, listeners={}))
        self.store.placements.place(key, hosts)

    def report(self, *hosts):
        """Report that these nodes have applied and announce everything."""
        self.epoch += 1
        state = {}
        if self.open_slots is not None:
            state['open_slots'] = self.open_slots
        for host in hosts:
            self.store.nodes.register(host)
            answer = self.store.deltas.changes(host, 0)
            taken = self.store.reports.take(host, self.epoch, 1, {
                'as_of': answer['as_of'], 'complete': True, 'gone': [],
                'counters': {}, 'state': state, 'held': {
                    entry['id']: {
                        'generation': entry['generation'], 'error': None,
                        'members': {}, 'announced': self.announcing}
                    for entry in answer['changed']}})
            self.assertTrue(taken.answer['taken'])

    def run_controller(self, *hosts):
        self.report(*hosts)
        self.duty.step()
        for item in self.store.work.claim('worker', 50, 60):
            row = self.store.load_balancers.get(item.load_balancer_id)
            placed = self.scheduler.place(
                self.store.situations.get(row.id))
            self.store.work.finish(item, 'worker', placed.again_in_s)

    def while_nodes_work(self, hosts, function):
        """Return a function's result; run controller and nodes meanwhile."""
        results = []
        thread = threading.Thread(
            target=lambda: results.append(function()))
        thread.start()
        while thread.is_alive():
            self.run_controller(*hosts)
        thread.join()
        return results[0]

    def hosts(self, key):
        return sorted(row.host for row in self.store.placements.select([key]))

    def draining(self, key):
        return [row.host for row in self.store.placements.select([key])
                if row.draining_since is not None]
