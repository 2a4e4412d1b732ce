# SPDX-License-Identifier: Apache-2.0
"""The library: its name says the layout that the headers have."""

import ctypes.util
import pathlib
import re
from unittest import mock

from octavia_xdp_provider.config import node_options
from octavia_xdp_provider.node import library
from octavia_xdp_provider.tests.unit import base

LAYOUT = pathlib.Path(__file__).parents[4] / 'datapath/include/layout.h'


class TestLibrary(base.TestCase):

    def test_is_another_one(self):
        name = ctypes.util.find_library('c')
        error = self.assertRaises(library.DatapathError, library.Library,
                                  name)
        self.assertIn(f'{name} is not the datapath', error.text)


class TestKey(base.TestCase):

    def test_damaged_state_is_reported(self):
        vip = mock.Mock(bytes=bytes(10) + b'\xff\xff\xc0\x00\x02\x01')
        for number, name in (17, 'UDP'), (238, '238'):
            self.assertEqual(('192.0.2.1', name, 53), library.key_of(
                mock.Mock(vip=vip, protocol=number, port=53)))


class TestName(base.TestCase):

    def test_is_of_the_layout(self):
        number, = re.findall(r'^#define OXP_LAYOUT (\d+)$',
                             LAYOUT.read_text(), re.MULTILINE)
        name = f'liboctavia_xdp.so.{number}'
        self.assertEqual(name, library.LIBRARY)
        self.assertEqual([name], [
            option.default for option in node_options.datapath_opts
            if option.name == 'library'])
