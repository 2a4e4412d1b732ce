# SPDX-License-Identifier: Apache-2.0
"""Libraries of another kind or version are refused by name."""

import ctypes.util
import errno
import pathlib

from octavia_xdp_provider.process import shared_library
from octavia_xdp_provider.tests.unit import base

BUILT = pathlib.Path(__file__).parents[4] / (
    'datapath/build/liboctavia_xdp_host.so')
VERSION = 'OXH_API_VERSION'


class RefusedError(shared_library.LibraryError):
    pass


class TestLoad(base.TestCase):

    def setUp(self):
        super().setUp()
        if not BUILT.exists():
            self.skipTest('the library is not built (make -C datapath)')

    def refused(self, path, name, wanted):
        return self.assertRaises(RefusedError, shared_library.load_version,
                                 path, name, wanted, RefusedError)

    def test_functions_and_types_are_those_of_its_header(self):
        ffi, api = shared_library.load(str(BUILT))
        self.assertEqual(128, api.OXH_RULES_MAX)
        self.assertEqual(16, ffi.sizeof('struct oxh_address'))

    def test_version_is_compared(self):
        _, api = shared_library.load(str(BUILT))
        version = api.OXH_API_VERSION
        shared_library.load_version(str(BUILT), VERSION, version)
        error = self.refused(str(BUILT), VERSION, version + 1)
        self.assertEqual(errno.EPROTO, error.errno)
        self.assertIn(f'{BUILT} has interface version {version}', error.text)
        self.assertIn(f'needs {version + 1}', error.text)

    def test_other_kinds_are_refused(self):
        name = ctypes.util.find_library('c')
        error = self.refused(name, VERSION, 1)
        self.assertEqual(errno.ELIBBAD, error.errno)
        self.assertIn(f'{name} is not the datapath', error.text)
        error = self.refused(str(BUILT), 'OXP_API_VERSION', 1)
        self.assertEqual(errno.ELIBBAD, error.errno)
        self.assertIn(f'{BUILT} is another', error.text)
