# SPDX-License-Identifier: Apache-2.0
"""L7 policies of what reads no requests: refused, and nothing stays PENDING.
"""

from octavia_xdp_provider.tests.e2e.support import api


class TestLayerSeven(api.UnchangedTestCase):

    def share(self):
        return self.create_balancer(listeners=[{
            'name': 'web', 'protocol': 'TCP', 'protocol_port': 80}])

    def test_policies_are_refused_and_leave_nothing_pending(self):
        listener, = self.sdk.listeners(load_balancer_id=self.balancer.id)
        self.refused(('l7policies',), 'post', 'l7policies', 'l7policy',
                     listener_id=listener.id, action='REJECT')
        before = self.ports()
        self.refused(('l7policies',), 'post', 'loadbalancers', 'loadbalancer',
                     provider='xdp', name='bad',
                     vip_subnet_id=self.subnet('vips-v4'), listeners=[{
                         'name': 'web', 'protocol': 'TCP',
                         'protocol_port': 80,
                         'l7policies': [{'action': 'REJECT'}]}])
        self.assertEqual(before, self.ports())
