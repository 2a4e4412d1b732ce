# SPDX-License-Identifier: Apache-2.0
"""Each option that is refused: by its name, and without any effect."""

from lab import cloud
from octavia_xdp_provider.driver import support
from octavia_xdp_provider.tests.e2e.support import api
from octavia_xdp_provider.tests.e2e.support import rows


class TestRefused(api.UnchangedTestCase):

    def share(self):
        return self.create_balancer(pools=[{
            'name': self.unique('pool'), 'protocol': 'TCP',
            'lb_algorithm': 'SOURCE_IP_PORT'}])

    def check(self, case, row, method, path, kind, **fields):
        return self.refused(case.names or (row,), method, path, kind,
                            **fields)

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
        pool, = self.sdk.pools(loadbalancer_id=key)
        self.check_all('member', pool.id, name='bad',
                       address='198.18.10.99', protocol_port=80)
        self.check_load_balancers()

    def check_load_balancers(self):
        """Refused load balancers leave no port."""
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
        answer = self.check(
            rows.ROWS['loadbalancer'][row], row, 'put', self.path(
                'loadbalancer', None, self.balancer.id), 'loadbalancer',
            **{row: given[row]})
        # It says what to do instead.
        rule = support.SUPPORT['loadbalancer'][row]
        for text in (rule.why, rule.instead):
            self.assertIn(text, answer['faultstring'])
