# SPDX-License-Identifier: Apache-2.0
"""The file about uplinks, by the vectors of its contract."""

import os

import fixtures

from octavia_xdp_provider.agent import uplinks_file
from octavia_xdp_provider.tests.unit import base


class TestUplinksFile(base.TestCase):

    def test_vectors_of_the_contract_are_read_or_refused(self):
        for vector in uplinks_file.CONTRACT['vectors']:
            with self.subTest(vector['name']):
                if vector.get('error'):
                    self.assertRaises(uplinks_file.UplinksFileError,
                                      uplinks_file.decode, vector['text'])
                    continue
                wanted = {int(family): uplinks_file.Family(**fields)
                          for family, fields in vector['families'].items()}
                self.assertEqual(wanted, uplinks_file.decode(vector['text']))
                self.assertEqual(wanted, uplinks_file.decode(
                    uplinks_file.encode(wanted)))

    def test_file_is_replaced_as_a_whole(self):
        folder = self.useFixture(fixtures.TempDir()).path
        path = os.path.join(folder, uplinks_file.FILE_NAME)
        for since in (1, None):
            known = {4: uplinks_file.Family(9, since)}
            uplinks_file.write(folder, known)
            with open(path, 'rb') as file:
                self.assertEqual(known, uplinks_file.decode(file.read()))
        self.assertEqual([uplinks_file.FILE_NAME], os.listdir(folder))
