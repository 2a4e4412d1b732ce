# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.tests.unit import base as unit_base
from octavia_xdp_provider.tests.unit.manage import base

STEP = 16 * 1024


class TestProjects(base.ManageTestCase):

    def add(self, number, project, members):
        tree = unit_base.tree(vip_address=f'203.0.113.{number}',
                              project_id=project)
        tree['pools']['pool']['members'] = {
            f'm{number}-{index}': unit_base.member(f'198.18.10.{index + 1}')
            for index in range(members)}
        key = f'lb{number}'
        self.store.requests.add({
            'object': 'loadbalancer', 'action': 'create', 'object_id': key,
            'load_balancer_id': key, 'fields': tree}, key)
        self.store.load_balancers.promote(key, key)

    def rows(self):
        return {row.pop('project'): row for row in self.listed(
            'project', 'list')}

    def test_usage_is_summed_over_load_balancers_of_project(self):
        for number, project, members in ((1, 'a', 2), (2, 'a', 5),
                                         (3, 'b', 1)):
            self.add(number, project, members)
        self.assertEqual({
            'a': {'load_balancers': 2, 'members': 7, 'bytes': 2 * STEP,
                  'largest_members': 5, 'largest_bytes': STEP,
                  'at_limit': ''},
            'b': {'load_balancers': 1, 'members': 1, 'bytes': STEP,
                  'largest_members': 1, 'largest_bytes': STEP,
                  'at_limit': ''}}, self.rows())

    def test_nearly_reached_limits_are_named(self):
        self.add(1, 'a', 9)
        self.configure('[limits]\nproject_members = 10\n'
                       'load_balancer_members = 11\n')
        self.assertEqual('project_members', self.rows()['a']['at_limit'])
