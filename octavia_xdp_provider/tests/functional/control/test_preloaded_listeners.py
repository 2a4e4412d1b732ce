# SPDX-License-Identifier: Apache-2.0
"""The listeners that the provider agent prepares, with Octavia's own code.

Octavia's models are those of the release that is installed; its tables are
made in SQLite, as far as statuses need them. Loading Octavia takes long: what
all of it does together is seen always, the rest in long form.
"""

import multiprocessing
import os
import pathlib
import signal
import socket

import fixtures
from oslo_config import cfg
import sqlalchemy as sa

from octavia_xdp_provider.controller import preloaded_listeners
from octavia_xdp_provider.controller import status_message
from octavia_xdp_provider.controller.octavia import driver_agent
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.support import waiting
from octavia_xdp_provider.tests.unit import base

LIMIT_S = 120
MESSAGE = b'{"object": "loadbalancers", "id": "x"}'
KEY, LISTENER, POLICY, RULE = (
    f'{number}1111111-1111-1111-1111-111111111111' for number in range(1, 5))
LAYER_7 = {'l7policy': POLICY, 'l7rule': RULE}


def _connects(path):
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(path)
        except OSError:
            return False
        # A whole message, which each of them answers: octavia-driver-agent
        # reads until it has one.
        sock.sendall(b'%d\n%b' % (len(MESSAGE), MESSAGE))
        with sock.makefile('rb') as answer:
            return bool(answer.read())


class TestPreloadedListeners(waiting.Waiting, base.TestCase):

    SOON, LOOK = LIMIT_S, 0.05

    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        self.paths = {kind: os.path.join(directory, f'preloaded-{kind}')
                      for kind in preloaded_listeners.KINDS}
        self.own = os.path.join(directory, 'own')
        self.database = os.path.join(directory, 'octavia.sqlite')
        self.context = multiprocessing.get_context('fork')
        self.exit_event = self.context.Event()

    def start(self):
        """Run it as octavia-driver-agent does, with Octavia loaded."""
        process = self.context.Process(target=self._serve)
        process.start()

        def end():
            self.exit_event.set()
            process.join(LIMIT_S)
            if process.is_alive():
                process.kill()
        self.addCleanup(end)
        return process

    def _serve(self):
        from octavia.common import config  # noqa: F401 - its options
        from octavia.db import models
        cfg.CONF([], project='octavia', default_config_files=[])
        cfg.CONF.set_override('connection', f'sqlite:///{self.database}',
                              group='database')
        # Octavia's setting does not suit SQLite.
        cfg.CONF.set_override('pool_timeout', None, group='database')
        cfg.CONF.set_override('status_socket_path', self.own,
                              group='driver_agent')
        cfg.CONF.set_override('network_driver', 'network_noop_driver',
                              group='controller_worker')
        engine = sa.create_engine(f'sqlite:///{self.database}')
        models.base_models.BASE.metadata.create_all(engine)
        with engine.begin() as rows:
            for kind, names in (
                    (models.ProvisioningStatus, ('PENDING_CREATE', 'ACTIVE')),
                    (models.OperatingStatus, ('OFFLINE', 'ONLINE',
                                              'DEGRADED'))):
                rows.execute(kind.__table__.insert(), [
                    {'name': name} for name in names])
            more = {'project_id': 'p', 'enabled': True,
                    'provisioning_status': 'PENDING_CREATE',
                    'operating_status': 'OFFLINE'}
            for model, values in (
                    (models.LoadBalancer, {'id': KEY, 'name': ''}),
                    (models.Listener, {
                        'id': LISTENER, 'load_balancer_id': KEY,
                        'protocol': 'HTTP', 'protocol_port': 80}),
                    (models.L7Policy, {
                        'id': POLICY, 'listener_id': LISTENER,
                        'action': 'REJECT', 'position': 1}),
                    (models.L7Rule, {
                        'id': RULE, 'l7policy_id': POLICY, 'type': 'PATH',
                        'compare_type': 'STARTS_WITH', 'value': '/',
                        'invert': False})):
                rows.execute(model.__table__.insert().values(
                    **{**more, **values}))
        engine.dispose()
        preloaded_listeners.serve(self.paths, self.exit_event)

    def wait_ready(self, process):
        self.wait('listeners', lambda: not process.is_alive() or all(
            map(_connects, self.paths.values())))
        self.assertTrue(process.is_alive(), 'it has ended')

    def agent(self):
        return driver_agent.DriverAgent(self.load('[controller]\n' + ''.join(
            f'{kind}_socket = {self.own}-{kind}\n'
            f'preloaded_{kind}_socket = {path}\n'
            for kind, path in self.paths.items())))

    def statuses(self, table='load_balancer'):
        """Return the statuses of the only row of a table, or None."""
        engine = sa.create_engine(f'sqlite:///{self.database}')
        with engine.connect() as rows:
            row = rows.execute(sa.select(
                sa.column('provisioning_status'),
                sa.column('operating_status')).select_from(
                    sa.table(table))).first()
        return row and tuple(row)

    def check_layer_7(self):
        """A policy and its rule get statuses, and go with their listener."""
        for operating in ('ONLINE', 'OFFLINE'):
            self.agent().set_statuses(status_message.message(
                dict.fromkeys(LAYER_7.items(), operating),
                dict.fromkeys(LAYER_7.items(), 'ACTIVE')))
            for table in LAYER_7:
                self.assertEqual(('ACTIVE', operating), self.statuses(table))
        self.agent().set_statuses(status_message.message(
            {}, removed=[*LAYER_7.items(), ('listener', LISTENER)]))
        for table in (*LAYER_7, 'listener'):
            self.assertIsNone(self.statuses(table))

    def test_octavia_sets_statuses_keeps_statistics_and_looks_up(self):
        self.wait_ready(self.start())
        self.assertEqual(('PENDING_CREATE', 'OFFLINE'), self.statuses())
        for operating in ('ONLINE', 'DEGRADED'):
            self.agent().set_statuses({'loadbalancers': [{
                'id': KEY, 'provisioning_status': 'ACTIVE',
                'operating_status': operating}]})
            self.assertEqual(('ACTIVE', operating), self.statuses())
        self.check_layer_7()
        self.agent().set_statistics([{
            'id': KEY, 'bytes_in': 7, 'bytes_out': 0,
            'active_connections': 1, 'total_connections': 2,
            'request_errors': 0}])
        engine = sa.create_engine(f'sqlite:///{self.database}')
        with engine.connect() as rows:
            self.assertEqual([(KEY, 7)], list(rows.execute(sa.text(
                'SELECT listener_id, bytes_in FROM listener_statistics'))))
        self.assertIsNone(self.agent().load_balancer(
            '22222222-2222-2222-2222-222222222222'))

    @form.in_long_form
    def test_it_ends_with_octavia_driver_agent(self):
        process = self.start()
        self.wait_ready(process)
        os.kill(process.pid, signal.SIGTERM)  # of its supervisor: too early
        self.exit_event.set()
        process.join(LIMIT_S)
        self.assertEqual(0, process.exitcode)
        for path in self.paths.values():
            self.assertFalse(os.path.exists(path))

    @form.in_long_form
    def test_one_that_dies_ends_the_others(self):
        """Their supervisor starts all of them again."""
        process = self.start()
        self.wait_ready(process)
        children = [int(pid) for pid in pathlib.Path(
            f'/proc/{process.pid}/task/{process.pid}/children'
            ).read_text().split()]
        self.assertEqual(len(self.paths), len(children))
        os.kill(children[-1], signal.SIGKILL)
        process.join(LIMIT_S)
        self.assertEqual(1, process.exitcode)
        for path in self.paths.values():
            self.assertFalse(_connects(path))

    @form.in_long_form
    def test_octavias_own_socket_is_not_taken(self):
        self.own = self.paths['status']
        process = self.start()
        process.join(LIMIT_S)
        self.assertEqual(1, process.exitcode)
        for path in self.paths.values():
            self.assertFalse(os.path.exists(path))
