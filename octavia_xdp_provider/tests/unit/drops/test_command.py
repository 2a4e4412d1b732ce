# SPDX-License-Identifier: Apache-2.0
"""The command: arguments, and errors if it cannot work."""

import contextlib
import io
import json
import signal
from unittest import mock

import fixtures

from octavia_xdp_provider.cmd import drops
from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.drops import environment
from octavia_xdp_provider.drops import kernel
from octavia_xdp_provider.host import run_directory as host_files
from octavia_xdp_provider.host.library import HostError
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.tests.unit import base

VIP = '203.0.113.10'
PORT = '11111111-1111-4111-8111-111111111111'


class CommandTest(base.TestCase):

    def setUp(self):
        super().setUp()
        # The command blocks the signals that end it.
        self.addCleanup(signal.pthread_sigmask, signal.SIG_SETMASK,
                        signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        self.datapath = mock.Mock()
        self.datapath.outcomes.return_value = {
            datapath.Outcome.DROP_NO_MEMBER: datapath.OutcomeCounters(0, 0)}
        self.datapath.services.return_value = [
            mock.Mock(key=mock.Mock(address=VIP))]
        self.open = self.replace(run_directory.RunDirectory, 'open_datapath',
                                 return_value=self.datapath)
        self.host = mock.Mock()
        self.host.entries.return_value = [
            mock.Mock(entry=mock.Mock(vip='203.0.113.11'))]
        self.open_host = self.replace(
            host_files.RunDirectory, 'open_datapath',
            side_effect=HostError(2, 'no hypervisor'))
        self.missing = self.replace(environment, 'all_missing',
                                    return_value=[])
        self.tracing = mock.Mock(**{'read.return_value': {},
                                    'missed.return_value': 0})
        self.kernel = self.replace(kernel, 'Kernel',
                                   return_value=self.tracing)
        config = self.create_tempfiles([('test', (
            '[datapath]\npin_directory = /nowhere/node\n'
            '[host_agent]\npin_directory = /nowhere/host\n'))],
            ext='.conf')[0]
        self.arguments = ['--config-file', config, '--json', '--count', '1',
                          '--interval', '0.1']

    def replace(self, where, name, **more):
        return self.useFixture(
            fixtures.MockPatchObject(where, name, **more)).mock

    def run_with(self, *arguments):
        """Return (exit status, lines, standard error)."""
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), \
                contextlib.redirect_stderr(errors):
            try:
                status = drops.main([*self.arguments, *arguments])
            except SystemExit as end:
                status = end.code
        return (status, [json.loads(line)
                         for line in out.getvalue().splitlines()],
                errors.getvalue())

    def test_vips_of_the_node_are_the_default(self):
        status, lines, errors = self.run_with()
        self.assertEqual((0, ''), (status, errors))
        self.assertEqual(['start', 'drops', 'end'],
                         [line['type'] for line in lines])
        self.assertEqual(['kernel', 'xdp', 'datapath'], lines[0]['sources'])
        self.tracing.watch.assert_called_once_with({VIP})
        self.tracing.close.assert_called_once_with()
        self.datapath.close.assert_called_once_with()

    def test_named_vips_are_normalized(self):
        self.run_with('--vip', '2001:DB8:0::1', '--vip', '::ffff:192.0.2.1')
        self.tracing.watch.assert_called_once_with(
            ['2001:db8::1', '192.0.2.1'])

    def test_wrong_arguments_are_named(self):
        for arguments, text in (
                (['--vip', 'web'], "'web' is no IPv4 or IPv6 address"),
                (['--vip', 'fe80::1%lo'], 'is no IPv4 or IPv6 address'),
                (['--interval', '0'], 'no number of seconds'),
                (['--interval', 'nan'], 'no number of seconds'),
                (['--duration', '-1'], 'no number of seconds'),
                (['--count', '0'], 'no positive number'),
                (['--datapath', '--vip', VIP],
                 '--vip cannot go with --datapath'),
                (['now'], 'unrecognized arguments')):
            status, lines, errors = self.run_with(*arguments)
            self.assertEqual((2, []), (status, lines), arguments)
            self.assertIn(text, errors)

    def test_missing_requirements_are_lines_and_datapath_is_offered(self):
        self.missing.return_value = ['no bcc: install it', 'no tracefs']
        status, lines, errors = self.run_with()
        self.assertEqual((3, []), (status, lines))
        self.assertEqual(
            ['octavia-xdp-drops: no bcc: install it',
             'octavia-xdp-drops: no tracefs',
             'octavia-xdp-drops: --datapath shows the drops of the '
             'datapath without that'], errors.splitlines())
        self.kernel.assert_not_called()

    def test_requirement_missing_at_loading_is_named(self):
        self.kernel.side_effect = environment.Missing('no headers')
        status, lines, errors = self.run_with()
        self.assertEqual((3, []), (status, lines))
        self.assertIn('no headers\n', errors)
        self.assertIn('--datapath', errors)
        self.datapath.close.assert_called_once_with()

    def test_datapath_alone_needs_no_tracing(self):
        self.missing.return_value = ['no bcc']
        self.datapath.outcomes.side_effect = [
            {datapath.Outcome.DROP_NO_MEMBER:
             datapath.OutcomeCounters(count, 60 * count)}
            for count in (7, 9)]
        status, lines, errors = self.run_with('--datapath')
        self.assertEqual((0, ''), (status, errors))
        self.assertEqual(
            [('datapath', 'NO_MEMBER', 2, 2)],
            [(row['source'], row['reason'], row['packets'], row['total'])
             for row in lines[1]['drops']])
        self.missing.assert_not_called()
        self.kernel.assert_not_called()

    def test_datapath_alone_without_a_datapath_is_refused(self):
        self.open.side_effect = datapath.DatapathError(2, 'nothing pinned')
        status, lines, errors = self.run_with('--datapath')
        self.assertEqual((3, []), (status, lines))
        self.assertIn('nothing pinned', errors)

    def test_named_vips_need_no_datapath(self):
        self.open.side_effect = datapath.DatapathError(2, 'nothing pinned')
        status, lines, errors = self.run_with()
        self.assertEqual((3, []), (status, lines))
        self.assertIn('nothing pinned', errors)
        self.assertIn('--vip', errors)
        status, lines, errors = self.run_with('--vip', VIP)
        self.assertEqual(0, status)
        self.assertEqual(['kernel', 'xdp'], lines[0]['sources'])
        self.assertIn('LB node: [Errno 2] nothing pinned', errors)
        self.assertIn('hypervisor: [Errno 2] no hypervisor', errors)

    def on_hypervisor(self):
        self.open.side_effect = datapath.DatapathError(2, 'nothing pinned')
        self.open_host.side_effect = None
        self.open_host.return_value = self.host
        self.host.outcomes.side_effect = [
            {enumerations.HostOutcome.DROP_NO_TAP: count}
            for count in (7, 9)]
        self.host.drops.side_effect = [
            {(PORT, enumerations.HostOutcome.DROP_NO_TAP): count}
            for count in (7, 9)]

    def test_drops_of_hypervisor_are_shown_like_those_of_node(self):
        self.on_hypervisor()
        status, lines, errors = self.run_with()
        self.assertEqual((0, ''), (status, errors))
        self.assertEqual(['kernel', 'xdp', 'host'], lines[0]['sources'])
        self.tracing.watch.assert_called_once_with({'203.0.113.11'})
        self.assertEqual(
            [('host', 'NO_TAP', PORT, 2, 2)],
            [(row['source'], row['reason'], row['port'], row['packets'],
              row['total']) for row in lines[1]['drops']])
        self.host.close.assert_called_once_with()

    def test_machine_that_is_both_shows_both(self):
        self.on_hypervisor()
        self.open.side_effect = None
        status, lines, errors = self.run_with('--datapath')
        self.assertEqual((0, ''), (status, errors))
        self.assertEqual(['datapath', 'host'], lines[0]['sources'])
        self.assertEqual({'203.0.113.11', VIP}, set(lines[0]['vips']))

    def test_existing_but_unreadable_state_is_named(self):
        with mock.patch('os.path.isdir', return_value=True):
            self.open_host.side_effect = HostError(71, 'another layout')
            status, lines, errors = self.run_with('--datapath')
        self.assertEqual((0, ['datapath']), (status, lines[0]['sources']))
        self.assertIn('hypervisor: [Errno 71] another layout', errors)

    def test_unusable_configuration_is_refused(self):
        status, lines, errors = self.run_with('--config-file', '/nowhere')
        self.assertEqual((3, []), (status, lines))
        self.assertIn('/nowhere', errors)
