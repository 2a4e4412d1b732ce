# SPDX-License-Identifier: Apache-2.0
"""Output of octavia-xdp-ctl upgrade."""

import contextlib
import io
import json
from unittest import mock

from octavia_xdp_provider.cmd import ctl
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import upgrade
from octavia_xdp_provider.tests.unit import base

DONE = upgrade.Upgrade(
    2, 3, '11' * 8, 5, 50, (upgrade.Interface(1, '00' * 8, True),
                            upgrade.Interface(0, '22' * 8, True)),
    0, 11, 8, 123456789, True)


class TestUpgrade(base.TestCase):

    def run_tool(self, *words, result=DONE):
        """(exit status, output, errors, the call of the library)"""
        out, errors = io.StringIO(), io.StringIO()
        with mock.patch.object(upgrade, 'upgrade',
                               side_effect=[result]) as call, \
                contextlib.redirect_stdout(out), \
                contextlib.redirect_stderr(errors):
            status = ctl.main([
                '--pin-directory', '/pins', '--lock-file', '/lock',
                'upgrade', *words])
        return status, out.getvalue(), errors.getvalue(), call.call_args

    def test_dry_run_says_what_would_happen(self):
        status, text, _, call = self.run_tool('--dry-run')
        self.assertEqual(0, status)
        for part in ('5 with 50 members', '11 new, 8 handed', '123MB',
                     'nothing was changed'):
            self.assertIn(part, text)
        rows = [line.split() for line in text.splitlines()]
        self.assertIn(['lo', '00' * 8, '11' * 8], rows)
        self.assertIn(['#0', '22' * 8, '11' * 8], rows)
        self.assertEqual(mock.call('/pins', '/lock',
                                   library='liboctavia_xdp.so.10',
                                   from_library=None, dry_run=True), call)

    def test_libraries_of_the_command_line_are_used(self):
        *_, call = self.run_tool('--library', 'to', '--from-library', 'from')
        self.assertEqual(mock.call('/pins', '/lock', library='to',
                                   from_library='from', dry_run=False), call)

    def test_json_names_layouts_and_interfaces(self):
        _, text, _, _ = self.run_tool('--json')
        shown = json.loads(text)
        self.assertEqual((2, 3, False, ['lo', '#0']), (
            shown['layout_before'], shown['layout_after'], shown['dry_run'],
            [interface['name'] for interface in shown['interfaces']]))
        self.assertEqual('00' * 8, shown['interfaces'][0]['tag_before'])

    def test_interface_with_the_same_program_stays(self):
        stays = DONE.interfaces[0]._replace(changes=False)
        _, text, _, _ = self.run_tool(
            result=DONE._replace(interfaces=(stays, DONE.interfaces[1])))
        rows = [line.split() for line in text.splitlines()]
        self.assertIn(['lo', '00' * 8, 'stays'], rows)
        self.assertIn(['#0', '22' * 8, '11' * 8], rows)

    def test_number_of_unlisted_interfaces_is_named(self):
        _, text, _, _ = self.run_tool(result=DONE._replace(interfaces_more=3))
        self.assertIn('and 3 more interfaces', text)

    def test_upgrade_without_interfaces_says_so(self):
        _, text, _, _ = self.run_tool(result=DONE._replace(interfaces=()))
        self.assertIn('no interface has a program', text)

    def test_upgrade_without_changes_says_so(self):
        status, text, _, _ = self.run_tool(
            result=DONE._replace(changes=False))
        self.assertEqual(0, status)
        self.assertIn('nothing to do', text)

    def test_failed_upgrade_ends_with_status_2(self):
        status, text, errors, _ = self.run_tool(
            result=datapath.DatapathError(22, 'does not load'))
        self.assertEqual((2, ''), (status, text))
        self.assertIn('does not load', errors)
