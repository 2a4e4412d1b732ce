# SPDX-License-Identifier: Apache-2.0
"""The files of the health checker, and the secret behind its keys."""

import errno
import json
import os
import pathlib
import stat
from unittest import mock

import fixtures

from octavia_xdp_provider.health import checks_directory
from octavia_xdp_provider.health import checks_file
from octavia_xdp_provider.health import secret_file
from octavia_xdp_provider.process import atomic_file
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import reconciling

CHECK = checks_file.Check('tcp', '198.18.10.10', 80, 5, 3)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


class TestDirectory(base.TestCase):

    def setUp(self):
        super().setUp()
        folder = self.useFixture(fixtures.TempDir()).path
        self.path = pathlib.Path(folder, 'checks')
        self.directory = checks_directory.ChecksDirectory(str(self.path))
        self.document = checks_file.build_document([CHECK])

    def test_checks_files_are_private(self):
        self.directory.make()
        self.directory.write('lb', self.document)
        self.assertEqual((0o750, 0o640), (
            mode(self.path), mode(self.path / 'lb.json')))

    def test_files_with_other_rights_are_read_by_the_group(self):
        self.path.mkdir(mode=0o700)
        old = self.path / 'lb.json'
        old.write_text('{}')
        old.chmod(0o600)
        self.directory.make()
        self.assertEqual((0o750, 0o640), (mode(self.path), mode(old)))

    def test_foreign_change_of_a_file_is_noticed(self):
        self.directory.make()
        for name in 'abc':
            self.directory.write(name, self.document)
        self.assertEqual(({'a', 'b', 'c'}, set()), self.directory.look())
        (self.path / 'a.json').unlink()
        (self.path / 'other').write_text('{}')
        (self.path / 'other').rename(self.path / 'b.json')
        (self.path / 'd.json').write_text('{}')
        self.assertEqual(({'b', 'c', 'd'}, {'a', 'b'}),
                         self.directory.look())

    def test_foreign_write_is_noticed_in_its_turn(self):
        self.directory.make()
        for name in 'abc':
            self.directory.write(name, self.document)
        (self.path / 'b.json').write_text('{}')
        self.assertEqual({'b'}, set().union(*(
            self.directory.look()[1]
            for _ in range(checks_directory.LOOKS))))

    def test_temporary_files_of_a_killed_writer_are_removed(self):
        self.directory.make()
        (self.path / '.tmp-lb.json-x').write_text('')
        self.directory.make()
        self.assertEqual([], os.listdir(self.path))


class TestPasses(reconciling.ReconcilerTestCase):

    def other(self):
        other = base.document(vip_address='203.0.113.11')
        other['pools']['pool']['healthmonitor']['delay'] = 9
        return dict(other, id='other')

    def test_change_writes_the_file_of_its_load_balancer(self):
        other = self.other()
        entry = (5, other)
        reconcile = self.reconciler.reconcile
        reconcile(self.wanted(self.document)._replace(documents={
            'lb': (5, self.document), 'other': entry}), reconciling.BOTH)
        document = base.document()
        document['pools']['pool']['healthmonitor']['delay'] = 7
        wanted = self.wanted(document)._replace(documents={
            'lb': (6, document), 'other': entry})
        with mock.patch.object(atomic_file, 'replace',
                               wraps=atomic_file.replace) as replace:
            reconcile(wanted, reconciling.BOTH)
            reconcile(wanted, reconciling.BOTH)
        self.assertEqual(['lb.json'], [
            call.args[0].name for call in replace.call_args_list])

    def test_file_that_somebody_removed_is_written_again(self):
        self.run_pass(self.document, self.other())
        before = self.checks_files()
        path = pathlib.Path(self.directory, 'checks')
        (path / 'lb.json').unlink()
        (path / 'other.json').write_text('{')
        (path / 'stranger.json').write_text('{}')
        self.run_pass(self.document, self.other())
        self.assertEqual(before, self.checks_files())

    def test_failed_pass_is_repeated(self):
        self.run_pass(self.document)
        document = base.document()
        document['pools']['pool']['members'].popitem()
        wanted = self.wanted(document)
        with mock.patch.object(self.datapath, 'set_services',
                               side_effect=OSError('once')):
            self.assertRaises(OSError, self.reconciler.reconcile, wanted,
                              reconciling.BOTH)
        self.reconciler.reconcile(wanted, reconciling.BOTH)
        self.assertEqual(1, len(self.datapath.held[reconciling.KEY]))
        self.assertEqual(1, len(self.checks()))

    def test_another_secret_gives_other_keys_and_keeps_the_states(self):
        def keys():
            return {check['key'] for check in self.checks()}
        self.reconciler = self.make(self.conf, keys=checks_file.Keys(b'one'))
        self.run_pass(self.document)
        self.datapath.set_health(reconciling.KEY, True)
        before = keys()
        self.reconciler = self.make(self.conf, keys=checks_file.Keys(b'two'))
        self.run_pass(self.document)
        self.assertFalse(before & keys())
        self.assertEqual({int(key, 16) for key in keys()}, {
            member.check for member
            in self.datapath.held[reconciling.KEY]})
        self.assertEqual({'lb': {'m1': 'up', 'm2': 'up'}},
                         self.reconciler.members())

    def test_service_that_somebody_else_has_changed_is_set_again(self):
        document = self.document
        wanted = self.wanted(document)
        self.reconciler.reconcile(wanted, reconciling.BOTH)
        with mock.patch.object(self.datapath, 'set_services',
                               wraps=self.datapath.set_services) as set_:
            for _ in range(2):
                # Only the part that is compared in turn.
                self.reconciler._passes = 1
                self.reconciler.reconcile(wanted, reconciling.BOTH)
            self.assertEqual([{}, {}], [
                call.args[0] for call in set_.call_args_list])
            self.datapath.held[reconciling.KEY].pop()
            del self.datapath.given[reconciling.KEY]
            self.reconciler._passes = 1
            self.reconciler.reconcile(wanted, reconciling.BOTH)
        self.assertEqual(2, len(self.datapath.held[reconciling.KEY]))


class TestSecret(base.TestCase):

    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'secret')

    def test_secret_is_kept_and_private(self):
        first = secret_file.load(self.path)
        self.assertEqual((first, 32, 0o600), (
            secret_file.load(self.path), len(first), mode(self.path)))

    def test_torn_secret_is_replaced(self):
        first = secret_file.load(self.path)
        self.path.write_bytes(first[:5])
        self.assertNotEqual(first, secret_file.load(self.path))
        self.assertEqual(32, self.path.stat().st_size)

    def test_full_disk_does_not_prevent_a_secret(self):
        with mock.patch.object(atomic_file, 'replace', side_effect=OSError(
                errno.ENOSPC, 'No space left on device')):
            self.assertEqual(32, len(secret_file.load(self.path)))


class TestContract(base.TestCase):

    def test_built_documents_match_the_schema(self):
        """Built documents are checked by their kinds only."""
        for check in (
                CHECK, checks_file.Check('ping', '::1', None, 1, 1, mark=9),
                checks_file.Check('http', '198.18.0.1', 1, 1, 1,
                                  http=checks_file.HttpOptions())):
            checks_file.validate(checks_file.build_document([check]))
        for fields in ({'port': 0}, {'port': 65536}, {'port': None},
                       {'mark': 0}, {'mark': 2 ** 32}, {'rise': 11},
                       {'type': 'http'}, {'type': 'x'}, {'timeout': 0}):
            self.assertRaises(
                checks_file.ChecksFileError, checks_file.build_document,
                [checks_file.Check(**{
                    'type': 'tcp', 'address': '198.18.0.1', 'port': 80,
                    'delay': 1, 'timeout': 1, **fields})])
        self.assertEqual(
            self.document(), json.loads(checks_file.encode(self.document())))

    @staticmethod
    def document():
        return checks_file.build_document([CHECK])
