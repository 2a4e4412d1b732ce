# SPDX-License-Identifier: Apache-2.0

import os
import pathlib

import google_crc32c
from oslotest import base

from octavia_xdp_provider.health import queue_directory
from octavia_xdp_provider.health import queue_file as rq

VECTORS = rq.CONTRACT['vectors']


def record(sequence, key=7):
    return rq.Record(key, sequence, 5, rq.State.UP, 0, rq.FLAG_VERIFIED, 0)


class TestCodec(base.BaseTestCase):
    def test_checksum_is_that_of_the_contract(self):
        checksum = rq.CONTRACT['checksum']

        self.assertEqual(
            checksum['check_value'],
            google_crc32c.value(checksum['check_input'].encode()),
        )

    def test_vectors_of_the_contract_are_decoded(self):
        for vector in VECTORS:
            with self.subTest(vector['name']):
                decoded = rq.decode(bytes.fromhex(vector['hex']))
                wanted = dict(vector['decoded'])
                records = wanted.pop('records')
                self.assertEqual(
                    records, [record._asdict() for record in decoded.records])
                for name, value in wanted.items():
                    self.assertEqual(value, getattr(decoded, name))

    def test_vectors_of_the_contract_are_encoded(self):
        for vector in VECTORS:
            with self.subTest(vector['name']):
                fields = dict(vector['decoded'])
                fields['records'] = [rq.Record(**r) for r in fields['records']]
                self.assertEqual(vector['hex'], rq.encode(**fields).hex())

    def test_broken_vectors_are_refused_with_their_reason(self):
        for vector in rq.CONTRACT['broken']:
            with self.subTest(vector['name']):
                error = self.assertRaises(
                    rq.QueueFileError,
                    rq.decode,
                    bytes.fromhex(vector['hex']),
                )
                self.assertEqual(vector['reason'], error.reason)
                self.assertIn(error.reason, rq.CONTRACT['error_reasons'])

    def test_every_cut_is_torn(self):
        data = bytes.fromhex(VECTORS[1]['hex'])
        for length in range(len(data)):
            error = self.assertRaises(
                rq.QueueFileError, rq.decode, data[:length]
            )
            self.assertEqual('torn', error.reason)

    def test_every_flipped_bit_is_found(self):
        data = bytes.fromhex(VECTORS[1]['hex'])
        for bit in range(len(data) * 8):
            broken = bytearray(data)
            broken[bit // 8] ^= 1 << bit % 8
            self.assertRaises(rq.QueueFileError, rq.decode, bytes(broken))


class TestDirectory(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        anchor = pathlib.Path(self.create_tempfiles([('x', '')])[0])
        self.path = anchor.parent / 'queue'
        self.path.mkdir()
        self.queue = queue_directory.QueueDirectory(
            self.path, anchor.parent / 'rejected', keep_rejected=3
        )

    def put(self, boot, first, count=1, name=None):
        data = rq.encode(
            rq.Kind.DELTA,
            boot,
            first,
            first + count - 1,
            [record(first + i) for i in range(count)],
        )
        path = self.path / (name or rq.delta_name(boot, first))
        path.write_bytes(data)
        return path

    def put_snapshot(self, kind=rq.Kind.SNAPSHOT):
        first = 0 if kind == rq.Kind.SNAPSHOT else 1
        data = rq.encode(kind, 9, first, 1, [record(1)])
        self.queue.snapshot_path.write_bytes(data)

    def test_missing_directory_counts_as_empty(self):
        queue = queue_directory.QueueDirectory(
            self.path / 'nowhere', self.path / 'rejected'
        )

        self.assertEqual([], queue.pending())
        self.assertEqual([], queue.foreign())
        self.assertIsNone(queue.snapshot())

    def test_pending_in_order_of_boot_and_sequence(self):
        late = self.put(0x10, 1)
        second = self.put(2, 0x100)
        first = self.put(2, 9)
        (self.path / '.tmp-0000').touch()
        self.put_snapshot()

        self.assertEqual([first, second, late], self.queue.pending())

    def test_read_and_remove(self):
        path = self.put(2, 1, count=3)

        delta = self.queue.read(path)

        self.assertEqual([1, 2, 3], [r.sequence for r in delta.records])
        self.queue.remove(path)
        self.queue.remove(path)
        self.assertEqual([], self.queue.pending())

    def test_read_holds_the_name_against_the_content(self):
        path = self.put(2, 1, name=rq.delta_name(2, 2))

        error = self.assertRaises(rq.QueueFileError, self.queue.read, path)

        self.assertEqual('name', error.reason)

    def test_snapshot_is_no_delta(self):
        self.put_snapshot()
        path = self.path / rq.delta_name(9, 1)
        os.rename(self.queue.snapshot_path, path)

        error = self.assertRaises(rq.QueueFileError, self.queue.read, path)

        self.assertEqual('kind', error.reason)

    def test_snapshot_is_read_with_its_records(self):
        self.assertIsNone(self.queue.snapshot())
        self.put_snapshot()

        self.assertEqual(1, self.queue.snapshot().last_sequence)

    def test_delta_is_no_snapshot(self):
        self.put_snapshot(kind=rq.Kind.DELTA)

        error = self.assertRaises(rq.QueueFileError, self.queue.snapshot)

        self.assertEqual('kind', error.reason)

    def test_foreign_files_are_listed_apart(self):
        self.put(2, 1)
        self.put_snapshot()
        (self.path / '.tmp-0000').touch()
        (self.path / 'rejected').mkdir()
        strange = self.path / 'core'
        strange.touch()
        capital = self.put(2, 1, name=rq.delta_name(0xA, 1).upper())

        self.assertEqual(sorted([capital, strange]), self.queue.foreign())

    def test_reject_sets_aside_with_the_reason(self):
        path = self.put(2, 1)

        place = self.queue.reject(path, 'crc')

        self.assertEqual([], self.queue.pending())
        self.assertTrue(place.exists())
        reason = place.with_name(place.name + '.reason')
        self.assertEqual('crc\n', reason.read_text())

    def test_reject_the_same_name_twice(self):
        places = {self.queue.reject(self.put(2, 1), 'crc') for _ in range(2)}

        self.assertEqual(2, len(places))

    def test_reject_what_has_gone(self):
        self.assertIsNone(self.queue.reject(self.path / 'gone', 'crc'))

    def test_rejected_files_are_bounded(self):
        for i in range(1, 11):
            place = self.queue.reject(self.put(2, i), 'crc')
            os.utime(place, ns=(i, i))

        left = sorted(p.name for p in place.parent.iterdir())

        wanted = [rq.delta_name(2, i) for i in (8, 9, 10)]
        self.assertEqual(
            sorted(wanted + [n + '.reason' for n in wanted]), left
        )
