# SPDX-License-Identifier: Apache-2.0
"""Each option that is refused: by its name, and without any effect."""

from lab import cloud
from octavia_xdp_provider.driver import support
from octavia_xdp_provider.tests.e2e.support import api
from octavia_xdp_provider.tests.e2e.support import rows

# What the API itself says of such a request, or the driver.
STATUSES = (400, 501)


class TestRefused(api.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.balancer = self.create_balancer(listeners=[{
            'name': self.unique('listener'), 'protocol': 'TCP',
            'protocol_port': 80, 'default_pool': {
                'name': self.unique('pool'), 'protocol': 'TCP',
                'lb_algorithm': 'SOURCE_IP_PORT'}}])
        self.listener, = self.sdk.listeners(load_balancer_id=self.balancer.id)
        self.pool, = self.sdk.pools(loadbalancer_id=self.balancer.id)

    def check(self, case, row, method, path, kind, **fields):
        names = case.names or (row,)
        before = self.tree(self.balancer.id)
        status, answer = self.request(method, path, kind, **fields)
        self.assertIn(status, STATUSES, answer)
        text = str(answer)
        self.assertTrue(any(name in text for name in names), text)
        self.assertEqual(before, self.tree(self.balancer.id))

    def check_all(self, kind, parent=None, **base):
        for row, case in rows.refused(kind).items():
            with self.subTest(row=row):
                self.check(case, row, 'post', self.path(kind, parent), kind,
                           **{**base, **case.fields})

    def test_each_row_that_is_refused(self):
        """All of them at one load balancer, which stays as it is."""
        key = self.balancer.id
        self.check_all('listener', loadbalancer_id=key, name='bad',
                       protocol='TCP', protocol_port=8443)
        self.check_all('pool', loadbalancer_id=key, name='bad',
                       protocol='TCP', lb_algorithm='SOURCE_IP_PORT')
        self.check_all('member', self.pool.id, name='bad',
                       address='198.18.10.99', protocol_port=80)
        self.check_load_balancers()

    def check_load_balancers(self):
        """Of these, no port is left either."""
        admin = cloud.connect(self.lab, cloud.ADMIN).network
        policy = admin.create_qos_policy(name=self.unique('qos'), shared=True)
        self.addCleanup(admin.delete_qos_policy, policy)
        tenant = cloud.connect(self.lab).network
        group = tenant.create_security_group(name=self.unique('group'))
        self.addCleanup(tenant.delete_security_group, group)
        before = self.ports()
        given = {'vip_qos_policy_id': policy.id, 'vip_sg_ids': [group.id]}
        for row, case in rows.refused('loadbalancer').items():
            with self.subTest(row=row):
                self.check(case, row, 'post', 'loadbalancers',
                           'loadbalancer', provider='xdp', name='bad',
                           vip_subnet_id=self.subnet('vips-v4'),
                           **{row: given[row]})
                self.assertEqual(before, self.ports())
        row = 'vip_qos_policy_id'
        self.check(rows.ROWS['loadbalancer'][row], row, 'put', self.path(
            'loadbalancer', None, self.balancer.id), 'loadbalancer',
            **{row: given[row]})

    def test_refusals_say_what_to_do_instead(self):
        rule = support.SUPPORT['loadbalancer']['vip_qos_policy_id']
        admin = cloud.connect(self.lab, cloud.ADMIN).network
        policy = admin.create_qos_policy(name=self.unique('qos'), shared=True)
        self.addCleanup(admin.delete_qos_policy, policy)
        status, answer = self.request(
            'put', self.path('loadbalancer', None, self.balancer.id),
            'loadbalancer', vip_qos_policy_id=policy.id)
        self.assertEqual(501, status)
        for text in (rule.why, rule.instead):
            self.assertIn(text, answer['faultstring'])
