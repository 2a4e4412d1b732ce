# SPDX-License-Identifier: Apache-2.0
"""Which octavia-xdp-member of a host is taken."""

import pathlib
import types
from unittest import mock

import fixtures

from bench import errors
from bench.traffic import member_tool
from octavia_xdp_provider.tests.unit import base


class Host:
    """:param commands: that it has."""

    name = 'lb'
    folder = pathlib.PurePosixPath('/run/bed/lb')

    def __init__(self, *commands):
        self.commands = set(commands)
        self.executable = []

    def run(self, arguments, *, check=True):
        if arguments[0] == 'chmod':
            self.executable += arguments[2:]
            return None
        return types.SimpleNamespace(
            returncode=int(arguments[-1] not in self.commands))

    def put(self, source, name):
        self.commands.add(str(self.folder / name))
        return self.folder / name


class TestMemberTool(base.TestCase):

    COPY = f'/run/bed/lb/{member_tool.NAME}'

    def setUp(self):
        super().setUp()
        self.built = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path) / member_tool.NAME
        self.useFixture(fixtures.MonkeyPatch(
            'bench.traffic.member_tool.BUILT', self.built))

    def test_what_the_host_sees_of_the_checkout_comes_first(self):
        host = Host(str(self.built), member_tool.NAME)
        for find in member_tool.find, member_tool.find_or_copy:
            self.assertEqual(str(self.built), find(host))

    def test_what_is_installed_is_taken(self):
        self.built.touch()
        host = Host(member_tool.NAME)
        for find in member_tool.find, member_tool.find_or_copy:
            self.assertEqual(member_tool.NAME, find(host))
        self.assertEqual([], host.executable)

    def test_what_is_measured_is_never_a_copy(self):
        self.built.touch()
        error = self.assertRaises(errors.BenchError, member_tool.find, Host())
        self.assertIn('lb has no octavia-xdp-member', str(error))
        self.assertIn('install the package', str(error))

    def test_copied_once_where_there_is_none(self):
        self.built.touch()
        host = Host()
        self.assertEqual(self.COPY, member_tool.find_or_copy(host))
        self.assertEqual([self.COPY], host.executable)
        with mock.patch.object(host, 'put', side_effect=AssertionError):
            self.assertEqual(self.COPY, member_tool.find_or_copy(host))

    def test_without_one_that_could_be_copied(self):
        error = self.assertRaises(errors.BenchError, member_tool.find_or_copy,
                                  Host())
        self.assertIn('make -C datapath', str(error))
