# SPDX-License-Identifier: Apache-2.0
"""L7 policies and rules: refused by name, and nothing stays PENDING."""

import sqlalchemy

from lab import cloud
from lab.control import mariadb
from octavia_xdp_provider.tests.e2e.support import api

POLICY = '11111111-2222-4333-8444-555555555555'
RULE = '66666666-7777-4888-8999-aaaaaaaaaaaa'

# What Octavia writes for a policy and a rule of another provider.
_STORED = (
    'INSERT INTO l7policy (id, project_id, name, listener_id, action, '
    'position, enabled, provisioning_status, operating_status) VALUES '
    '(:policy, :project, "", :listener, "REJECT", 1, 1, "ACTIVE", "ONLINE")',
    'INSERT INTO l7rule (id, project_id, l7policy_id, type, compare_type, '
    'value, invert, enabled, provisioning_status, operating_status) VALUES '
    '(:rule, :project, :policy, "PATH", "EQUAL_TO", "/", 0, 1, "ACTIVE", '
    '"ONLINE")')


class TestLayerSeven(api.UnchangedTestCase):

    def share(self):
        return self.create_balancer(listeners=[{
            'name': 'web', 'protocol': 'TCP', 'protocol_port': 80}])

    def setUp(self):
        super().setUp()
        self.listener, = self.sdk.listeners(load_balancer_id=self.balancer.id)

    def check(self, option, method, path, kind=None, **fields):
        self.refused((option,), method, path, kind, **fields)

    def test_policies_are_refused_and_leave_nothing_pending(self):
        self.check('l7policy', 'post', 'l7policies', 'l7policy',
                   listener_id=self.listener.id, action='REJECT')
        before = self.ports()
        self.check('l7policies', 'post', 'loadbalancers', 'loadbalancer',
                   provider='xdp', name='bad',
                   vip_subnet_id=self.subnet('vips-v4'), listeners=[{
                       'name': 'web', 'protocol': 'TCP', 'protocol_port': 80,
                       'l7policies': [{'action': 'REJECT'}]}])
        self.assertEqual(before, self.ports())
        self.check_changes()

    def check_changes(self):
        """Octavia has a policy and a rule that this provider never took."""
        project = cloud.connect(self.lab).current_project_id
        self.query(*_STORED, policy=POLICY, rule=RULE, project=project,
                   listener=self.listener.id)
        policy, rules = f'l7policies/{POLICY}', f'l7policies/{POLICY}/rules'
        self.check('l7policy', 'put', policy, 'l7policy', name='other')
        self.check('l7rule', 'post', rules, 'rule', type='PATH',
                   compare_type='EQUAL_TO', value='/other')
        self.check('l7rule', 'put', f'{rules}/{RULE}', 'rule', value='/other')
        self.check('l7rule', 'delete', f'{rules}/{RULE}')
        self.check('l7policy', 'delete', policy)
        self.assertEqual('ACTIVE', self.request('get', policy)[1][
            'l7policy']['provisioning_status'])
        # It goes with its listener.
        self.sdk.delete_listener(self.listener)
        self.wait_active(self.balancer)
        self.assertEqual([], self.query(
            'SELECT id FROM l7policy WHERE id = :policy', policy=POLICY))

    def query(self, *statements, **values):
        """The rows of the last of some statements of Octavia's database."""
        engine = sqlalchemy.create_engine(mariadb.url(self.lab, 'octavia'))
        try:
            with engine.begin() as connection:
                for statement in statements:
                    found = connection.execute(
                        sqlalchemy.text(statement), values)
                return found.fetchall() if found.returns_rows else []
        finally:
            engine.dispose()
