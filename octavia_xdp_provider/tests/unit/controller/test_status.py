# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.controller import status
from octavia_xdp_provider.tests.unit import base


class TestOperatingStatuses(base.TestCase):

    def statuses(self, reports, document=None, **more):
        return status.operating_statuses(document or base.document(),
                                         reports, **more)

    def check(self, expected, found):
        self.assertEqual(expected, {
            key: found[key] for key in found
            if key[0] in ('loadbalancer', 'listener', 'pool', 'member')})

    def test_all_members_up_are_online(self):
        up = {'m1': 'up', 'm2': 'up'}
        found = self.statuses({'a': up, 'b': up})
        self.assertEqual({'ONLINE'}, set(found.values()))

    def test_one_member_down_degrades_pool_and_above(self):
        report = {'m1': 'up', 'm2': 'down'}
        self.check({('member', 'm1'): 'ONLINE', ('member', 'm2'): 'ERROR',
                    ('pool', 'pool'): 'DEGRADED',
                    ('listener', 'listener'): 'DEGRADED',
                    ('loadbalancer', 'lb'): 'DEGRADED'},
                   self.statuses({'a': report, 'b': report}))

    def test_all_members_down_are_an_error(self):
        report = {'m1': 'down', 'm2': 'down'}
        found = self.statuses({'a': report})
        self.assertEqual('ERROR', found['loadbalancer', 'lb'])
        self.assertEqual('ERROR', found['pool', 'pool'])

    def test_nodes_that_disagree_degrade_the_member(self):
        found = self.statuses({'a': {'m1': 'up', 'm2': 'up'},
                               'b': {'m1': 'down', 'm2': 'up'}})
        self.assertEqual('DEGRADED', found['member', 'm1'])

    def test_a_node_that_does_not_know_yet_has_no_say(self):
        found = self.statuses({'a': {'m1': 'up'}, 'b': {'m1': 'unknown'}})
        self.assertEqual('ONLINE', found['member', 'm1'])
        self.assertEqual('OFFLINE', found['member', 'm2'])

    def test_members_without_a_monitor_are_no_monitor(self):
        document = base.document()
        document['pools']['pool']['healthmonitor'] = None
        found = self.statuses({}, document)
        self.assertEqual('NO_MONITOR', found['member', 'm1'])
        self.assertEqual('ONLINE', found['pool', 'pool'])

    def test_admin_down_is_offline(self):
        for change, key in (
                (lambda d: d, ('loadbalancer', 'lb')),
                (lambda d: d['pools']['pool'], ('pool', 'pool')),
                (lambda d: d['listeners']['listener'],
                 ('listener', 'listener')),
                (lambda d: d['pools']['pool']['members']['m1'],
                 ('member', 'm1')),
                (lambda d: d['pools']['pool']['healthmonitor'],
                 ('healthmonitor', 'hm'))):
            document = base.document()
            change(document)['admin_state_up'] = False
            found = self.statuses({'a': {'m1': 'up', 'm2': 'up'}}, document)
            self.assertEqual('OFFLINE', found[key], key)

    def test_a_disabled_member_does_not_degrade_its_pool(self):
        document = base.document()
        document['pools']['pool']['members']['m1']['admin_state_up'] = False
        found = self.statuses({'a': {'m2': 'up'}}, document)
        self.assertEqual('ONLINE', found['pool', 'pool'])

    def member(self, member, reports, monitored=True, **options):
        document = base.document()
        document['pools']['pool']['members'][member].update(options)
        if not monitored:
            document['pools']['pool']['healthmonitor'] = None
        found = self.statuses(reports, document)
        return found['member', member], found['pool', 'pool']

    def test_a_member_without_weight_drains(self):
        for monitored in (True, False):
            self.assertEqual(
                ('DRAINING', 'ONLINE'), self.member(
                    'm1', {'a': {'m1': 'up', 'm2': 'up'}}, monitored,
                    weight=0))
        self.assertEqual(
            ('OFFLINE', 'ONLINE'), self.member(
                'm1', {'a': {'m1': 'up', 'm2': 'up'}}, weight=0,
                admin_state_up=False))

    def test_a_draining_member_that_is_down_shows_it(self):
        self.assertEqual(
            ('ERROR', 'DEGRADED'), self.member(
                'm1', {'a': {'m1': 'down', 'm2': 'up'}}, weight=0))
        self.assertEqual(
            ('DEGRADED', 'DEGRADED'), self.member(
                'm1', {'a': {'m1': 'down', 'm2': 'up'},
                       'b': {'m1': 'up', 'm2': 'up'}}, weight=0))
        self.assertEqual(
            ('OFFLINE', 'DEGRADED'), self.member(
                'm1', {'a': {'m2': 'up'}}, weight=0))

    def test_a_pool_that_takes_no_new_flows(self):
        self.assertEqual(
            ('DRAINING', 'ERROR'), self.member(
                'm1', {'a': {'m1': 'up', 'm2': 'down'}}, weight=0))
        document = base.document()
        for member in document['pools']['pool']['members'].values():
            member['weight'] = 0
        found = self.statuses({'a': {'m1': 'up', 'm2': 'up'}}, document)
        self.check({('member', 'm1'): 'DRAINING',
                    ('member', 'm2'): 'DRAINING',
                    ('pool', 'pool'): 'ERROR',
                    ('listener', 'listener'): 'ERROR',
                    ('loadbalancer', 'lb'): 'ERROR'}, found)

    def test_a_pool_without_enabled_members_is_no_error(self):
        document = base.document()
        members = document['pools']['pool']['members']
        for member in members.values():
            member['admin_state_up'] = False
        self.assertEqual('ONLINE', self.statuses({}, document)[
            'pool', 'pool'])
        members.clear()
        self.assertEqual('ONLINE', self.statuses({}, document)[
            'pool', 'pool'])

    def test_a_backup_is_watched_as_others_are(self):
        """Primaries down and backups up: the pool works, degraded."""
        for backup, primary, pool in (('up', 'up', 'ONLINE'),
                                      ('up', 'down', 'DEGRADED'),
                                      ('down', 'up', 'DEGRADED'),
                                      ('down', 'down', 'ERROR')):
            status, found = self.member(
                'm1', {'a': {'m1': backup, 'm2': primary}}, backup=True)
            self.assertEqual('ONLINE' if backup == 'up' else 'ERROR', status)
            self.assertEqual(pool, found, (backup, primary))

    def test_a_failing_node_degrades_the_load_balancer(self):
        up = {'m1': 'up', 'm2': 'up'}
        found = self.statuses({'a': up}, nodes_failing=True)
        self.assertEqual('DEGRADED', found['loadbalancer', 'lb'])


class TestMessage(base.TestCase):

    def test_message_holds_both_statuses_and_deletions(self):
        self.assertEqual(
            {'members': [
                {'id': 'gone', 'provisioning_status': 'DELETED'},
                {'id': 'm', 'operating_status': 'ONLINE',
                 'provisioning_status': 'ACTIVE'}]},
            status.message({('member', 'm'): 'ONLINE'}, 'ACTIVE',
                           [('member', 'gone')]))

    def test_message_may_leave_provisioning_alone(self):
        self.assertEqual(
            {'pools': [{'id': 'p', 'operating_status': 'ERROR'}]},
            status.message({('pool', 'p'): 'ERROR'}))
