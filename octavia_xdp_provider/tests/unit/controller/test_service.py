# SPDX-License-Identifier: Apache-2.0
"""The controller, wired together by its configuration."""

from octavia_xdp_provider.controller import service
from octavia_xdp_provider.tests.unit.controller import base

# No process listens at the discard port.
OPTIONS = '''
[DEFAULT]
transport_url = fake://
[database]
connection = {}
[nodes]
transport_url = fake:///{{vhost}}
[octavia]
auth_type = v3password
auth_url = http://127.0.0.1:9/v3
username = octavia
password = secret
user_domain_name = Default
project_name = service
project_domain_name = Default
'''


class TestController(base.StoreTestCase):

    def test_controller_serves_and_stops(self):
        controller = service.Controller(self.load(
            OPTIONS.format(self.conf.database.connection)))
        thread = self.run_in_thread(controller)
        self.assertTrue(controller.serving.wait(60))
        controller.stop()
        thread.join(60)
        self.assertFalse(thread.is_alive())

    def test_each_loop_is_watched(self):
        controller = service.Controller(self.load(
            OPTIONS.format(self.conf.database.connection)))
        self.assertEqual(
            {'workers', 'worker', 'leader', 'heartbeats', 'nodes', 'hosts',
             'zero touch'}, controller._monitoring.loops.ages().keys())
