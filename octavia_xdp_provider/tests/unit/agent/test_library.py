# SPDX-License-Identifier: Apache-2.0
"""The library: its name says the layout that the headers have."""

import ctypes.util
import pathlib
import re

from octavia_xdp_provider.agent import library
from octavia_xdp_provider.common import options
from octavia_xdp_provider.tests.unit import base

LAYOUT = pathlib.Path(__file__).parents[4] / 'datapath/include/layout.h'


class TestLibrary(base.TestCase):

    def test_is_another_one(self):
        name = ctypes.util.find_library('c')
        error = self.assertRaises(library.DatapathError, library.Library,
                                  name)
        self.assertIn(f'{name} is not the datapath', error.text)


class TestName(base.TestCase):

    def test_is_of_the_layout(self):
        number, = re.findall(r'^#define OXP_LAYOUT (\d+)$',
                             LAYOUT.read_text(), re.MULTILINE)
        name = f'liboctavia_xdp.so.{number}'
        self.assertEqual(name, library.LIBRARY)
        self.assertEqual([name], [
            option.default for option in options.datapath_opts
            if option.name == 'library'])
