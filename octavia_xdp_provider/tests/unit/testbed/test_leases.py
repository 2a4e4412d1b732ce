# SPDX-License-Identifier: Apache-2.0
"""Leases: exclusive, all or nothing, ended by an entry of the log."""

import pathlib

import fixtures
import sqlalchemy

from bench import errors
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.testbed import samples
from testbed import database
from testbed import leases

HOUR = leases.HOUR_S


class LeasesTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.site = samples.Site(
            pathlib.Path(self.useFixture(fixtures.TempDir()).path))
        self.leases, self.clock = self.site.leases, self.site.clock

    def refused(self, said, function, *arguments, **more):
        error = self.assertRaises(errors.BenchError, function, *arguments,
                                  **more)
        self.assertIn(said, str(error))
        return error

    def actions(self):
        return [(entry.action, entry.who, entry.lease)
                for entry in self.leases.log()]


class TestReserve(LeasesTest):

    def test_a_lease_has_what_was_asked(self):
        lease = self.site.reserve('lb2', 'lb1', kernel='debian-6.12')
        self.assertEqual(leases.Lease(
            1, 'alice', 'rates', 'debian-6.12', samples.BEGIN,
            samples.BEGIN + 8 * HOUR, ('lb1', 'lb2')), lease)
        self.assertEqual([lease], self.leases.active())
        self.assertEqual([('reserve', 'alice', 1)], self.actions())

    def test_a_taken_machine_is_refused_with_who_has_it_until_when(self):
        self.site.reserve('lb1')
        error = self.refused('', self.site.reserve, 'lb1', owner='bob')
        self.assertEqual('lb1 is taken by alice until 2027-01-15 16:00 UTC '
                         '(lease 1: rates)', str(error))
        self.assertIsInstance(error, leases.TakenError)

    def test_all_machines_or_none(self):
        self.site.reserve('lb1')
        self.refused('lb1 is taken', self.site.reserve, 'gen1', 'lb1', 'lb2',
                     owner='bob')
        self.assertEqual(1, len(self.leases.active()))
        self.assertEqual(('gen1', 'lb2'), self.site.reserve(
            'gen1', 'lb2', owner='bob').machines)

    def test_an_expired_lease_is_ended_by_the_next_reserve(self):
        self.site.reserve('lb1', hours=1)
        self.clock.now += HOUR - 1
        self.refused('taken', self.site.reserve, 'lb1', owner='bob')
        self.clock.now += 1
        self.assertEqual('bob', self.site.reserve('lb1', owner='bob').owner)
        self.assertEqual([('reserve', 'alice', 1), ('expire', 'bob', 1),
                          ('reserve', 'bob', 2)], self.actions())

    def test_what_cannot_be_taken_is_named(self):
        for said, machines, more in (
                ("no machine 'lb9'", ('lb9',), {}),
                ('named twice', ('lb1', 'lb1'), {}),
                ('one machine at least', (), {}),
                ("no kernel 'plan9'", ('lb1',), {'kernel': 'plan9'}),
                ('no MAC address', ('gen1',), {'kernel': 'debian-6.12'}),
                ('1 to 48', ('lb1',), {'hours': 49}),
                ('1 to 48', ('lb1',), {'hours': 0}),
                ('no name of an owner', ('lb1',), {'owner': 'Al <a@b>'}),
                ('no name of an owner', ('lb1',), {'owner': 'alice\n'}),
                ('a purpose is needed', ('lb1',), {'purpose': ' \t'}),
                ('U+000A', ('lb1',), {'purpose': 'a\nvrf evil'}),
                ('U+202E', ('lb1',), {'purpose': 'a\u202eb'}),
                ('U+2028', ('lb1',), {'purpose': 'a\u2028b'}),
                ('201 characters', ('lb1',), {'purpose': 'x' * 201})):
            with self.subTest(said):
                self.refused(said, self.site.reserve, *machines, **more)
        self.assertEqual([], self.leases.log())


class TestRenewAndRelease(LeasesTest):

    def renew(self, who, hours=8):
        return self.leases.renew(1, who, hours, self.site.known)

    def test_renewed_by_the_owner_before_the_end_alone(self):
        self.site.reserve('lb1')
        self.refused("alice's, not bob's", self.renew, 'bob')
        self.clock.now += 7 * HOUR
        self.assertEqual(self.clock.now + 8 * HOUR,
                         self.renew('alice').expires)
        self.clock.now += 8 * HOUR
        self.refused('expired at', self.renew, 'alice')

    def test_renewed_it_does_not_become_shorter(self):
        expires = self.site.reserve('lb1').expires
        self.assertEqual(expires, self.renew('alice', 1).expires)

    def test_released_by_the_owner_or_by_force(self):
        self.site.reserve('lb1')
        self.site.reserve('lb2')
        self.refused("alice's", self.leases.release, 1, 'bob')
        self.leases.release(1, 'alice')
        self.refused('none that is active', self.leases.release, 1, 'alice')
        self.leases.release(2, 'root', force=True)
        self.assertEqual([], self.leases.active())
        self.assertEqual('bob', self.site.reserve('lb1', owner='bob').owner)

    def test_sync_ends_what_has_expired_and_nothing_else(self):
        self.site.reserve('lb1', hours=1)
        self.site.reserve('lb2', hours=2)
        self.clock.now += HOUR
        self.assertEqual([1], [lease.number for lease
                               in self.leases.end_expired('carol')])
        self.assertEqual([], self.leases.end_expired('carol'))
        self.assertEqual([2], [lease.number for lease in self.leases.active()])


class TestClockSteps(LeasesTest):

    def test_back_no_lease_that_ended_returns(self):
        self.site.reserve('lb1', hours=1)
        self.clock.now += HOUR
        second = self.site.reserve('lb1', owner='bob')
        self.clock.now -= 5 * HOUR
        self.refused('taken by bob', self.site.reserve, 'lb1')
        self.refused('none that is active', self.leases.renew, 1, 'alice', 8,
                     self.site.known)
        self.assertEqual([second], self.leases.active())

    def test_back_a_lease_is_renewed_but_not_shortened(self):
        expires = self.site.reserve('lb1', hours=8).expires
        self.clock.now -= 24 * HOUR
        self.assertEqual(expires, self.leases.renew(
            1, 'alice', 8, self.site.known).expires)

    def test_back_the_log_keeps_its_order(self):
        self.site.reserve('lb1')
        self.clock.now -= HOUR
        self.leases.release(1, 'alice')
        self.assertEqual(['reserve', 'release'],
                         [entry.action for entry in self.leases.log()])


class TestHistory(LeasesTest):

    def test_who_had_what_after_each_entry(self):
        self.site.reserve('lb1')
        self.site.reserve('lb2', owner='bob')
        self.leases.renew(1, 'alice', 8, self.site.known)
        self.leases.release(1, 'alice')
        self.assertEqual(
            [[], [1], [1, 2], [1, 2], [2]],
            [[lease.number for lease in self.leases.as_of(entry)]
             for entry in range(5)])
        self.assertEqual([2, 4], [entry.number for entry
                                  in self.leases.changes_after(1)])

    def test_the_log_cannot_be_changed(self):
        self.site.reserve('lb1')
        for statement in (database.LOG.update().values(who='bob'),
                          database.LOG.delete()):
            def change(statement=statement):
                with self.leases.engine.begin() as connection:
                    connection.execute(statement)
            error = self.assertRaises(sqlalchemy.exc.IntegrityError, change)
            self.assertIn('only appended to', str(error))

    def test_the_last_entries(self):
        for _ in range(3):
            self.site.reserve('lb1')
            self.leases.release(len(self.leases.log()) // 2 + 1, 'alice')
        self.assertEqual([5, 6], [entry.number for entry
                                  in self.leases.log(2)])

    def test_a_database_of_another_version_is_refused(self):
        with self.leases.engine.begin() as connection:
            connection.exec_driver_sql('PRAGMA user_version = 99')
        self.refused('version 99', database.open_file,
                     self.site.folder / database.FILE)

    def test_what_is_no_database_is_refused(self):
        path = self.site.folder / 'other'
        path.write_text('no database, and longer than its header is' * 9)
        self.refused('not a database', database.open_file, path)
