# SPDX-License-Identifier: Apache-2.0
"""An operator's commands, metrics and health, over a real broker and server.
"""

import io
import json
import os
import socket
import urllib.error
import urllib.request

from octavia_xdp_provider.manage import app
from octavia_xdp_provider.tests.functional.support import control


def free_address():
    """Address and port where nobody listens.

    Not of 127.0.0.1, at whose ports connections of others begin until the
    controller listens there.
    """
    pid = os.getpid()
    with socket.socket() as probe:
        probe.bind((f'127.{1 + (pid >> 8) % 254}.{pid & 255}.1', 0))
        return '{}:{}'.format(*probe.getsockname())


class TestOperator(control.ControlTestCase):

    def setUp(self):
        super().setUp()
        self.address = free_address()
        self.text = self.text.replace(
            '[controller]\n',
            f'[controller]\nlisten = {self.address}\n')
        self.conf = self.configure('controller', '')

    def manage(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        status = app.Application(stdout=out, stderr=err).run([
            '--config-file', self.conf.default_config_files[0], *arguments,
            *(('-f', 'json') if 'list' in arguments else ())])
        self.assertEqual(0, status, err.getvalue())
        return json.loads(out.getvalue()) if 'list' in arguments else None

    def get(self, path):
        try:
            answer = urllib.request.urlopen(
                f'http://{self.address}{path}', timeout=30)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return answer.status, answer.read().decode()

    def test_a_node_is_informed_that_it_drains_and_that_it_does_not(self):
        node = self.start()
        key = self.create().loadbalancer_id
        self.wait('report', lambda: (
            self.manage('lb', 'list')[0]['state'] == 'ok'))
        self.manage('node', 'drain', control.HOST)
        self.wait('drain', lambda: node.draining == {key})
        self.assertEqual('draining', self.manage('lb', 'list')[0]['state'])
        self.assertEqual('draining',
                         self.manage('node', 'list')[0]['condition'])
        # The only node that there is does what is asked for all the same.
        self.create_pool(key)
        self.manage('node', 'enable', control.HOST)
        self.wait('end of the drain', lambda: node.draining == set())
        self.wait('report', lambda: (
            self.manage('lb', 'list')[0]['state'] == 'ok'))

    def test_health_and_metrics_are_those_of_what_happens(self):
        self.start()
        self.wait('health', lambda: self.get('/healthcheck')[0] == 200)
        self.create()
        self.wait('figures', lambda: (
            f'octavia_xdp_controller_placements{{host="{control.HOST}",'
            'role="lb",state="ok"} 1.0\n' in self.get('/metrics')[1]))
        text = self.get('/metrics')[1]
        for line in ('octavia_xdp_controller_change_seconds_count 1.0',
                     'octavia_xdp_controller_changes_total{outcome='
                     '"accepted"} 1.0',
                     'octavia_xdp_controller_node_lag_generations{host='
                     f'"{control.HOST}",role="lb"}} 0.0',
                     'octavia_xdp_controller_leader 1.0'):
            self.assertIn(f'{line}\n', text)
