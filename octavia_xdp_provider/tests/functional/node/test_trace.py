# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl trace: needs root and a kernel that lets root trace."""

import errno
import json
import signal
import subprocess
import tempfile
import time

from scapy import utils

from octavia_xdp_provider.ctl import outcome as outcomes
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import ctl_node
from octavia_xdp_provider.tests.functional.support import private_node as base
from octavia_xdp_provider.tests.functional.support.ctl_node import SOON
from octavia_xdp_provider.tests.support.clients import CLIENT
from octavia_xdp_provider.tests.support.clients import TCP
from octavia_xdp_provider.tests.support.clients import TCP_V6
from octavia_xdp_provider.tests.support.clients import UDP
from octavia_xdp_provider.tests.support.clients import VIP
from octavia_xdp_provider.tests.support.clients import with_


class TestTrace(ctl_node.Node):

    def setUp(self):
        super().setUp()
        try:
            self.datapath.trace(VIP).close()
        except datapath.DatapathError as error:
            if error.errno != errno.EPERM:
                raise
            self.skipTest(f'this kernel lets nobody trace: {error.text}')
        self.wait_traced(0)

    def traced(self):
        """Programs of traces, with the links that hold them."""
        programs = [program for program in json.loads(base.command(
            'bpftool', '-j', 'prog', 'show'))
            if program.get('name', '').startswith('oxp_trace')]
        ids = {program['id'] for program in programs}
        return len(programs), len([link for link in json.loads(base.command(
            'bpftool', '-j', 'link', 'show') or '[]')
            if link.get('prog_id') in ids])

    def wait_traced(self, count):
        self.wait(f'{count} traces', lambda: self.traced() == (count, count))

    def start(self, *words, stdout=subprocess.DEVNULL):
        process = subprocess.Popen(
            self.words('trace', *words), stdout=stdout,
            stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for line in process.stderr:
            if b'tracing' in line:
                return process
        self.fail(f'it ended with {process.wait()}')

    def send(self, *frames):
        with self.inside(self.node):
            return self.datapath.run([(frame, self.ifindex)
                                      for frame in frames])

    def test_file_has_each_packet_before_and_after_the_program(self):
        frames = [with_(TCP, syn=True, length=400),
                  with_(TCP, source='127.0.0.1'), with_(UDP)]
        with tempfile.NamedTemporaryFile(suffix='.pcapng') as file:
            process = self.start(VIP, '-w', file.name, '--count', '3',
                                 '--snaplen', '100')
            self.assertEqual((2, 2), self.traced())
            results = self.send(with_(TCP_V6), *frames, with_(UDP))[1:4]
            self.assertEqual(0, process.wait(SOON))
            reader = utils.PcapNgReader(file.name)
            seen = list(reader)
            reader.close()
        self.assertEqual(6, len(seen))
        for frame, (action, out), first, second in zip(
                frames, results, seen[::2], seen[1::2], strict=True):
            self.assertEqual((frame[:100], out[:100]),
                             (first.original, second.original))
            self.assertEqual((len(frame), len(out)),
                             (first.wirelen, second.wirelen))
            self.assertEqual(('up0@in', 1, 'up0@out', 2), (
                first.sniffed_on, first.direction, second.sniffed_on,
                second.direction))
            self.assertEqual(outcomes.ACTIONS[action].encode(),
                             second.comment)
            self.assertLess(abs(float(first.time) - time.time()), 3600)
        self.wait_traced(0)

    def test_text_is_written_until_a_signal(self):
        process = self.start(VIP, '--seconds', '86400',
                             stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.send(with_(TCP))
        lines = [process.stdout.readline().decode() for _side in range(2)]
        self.assertIn(f'up0 in  TCP {CLIENT}:40000 -> {VIP}:80', lines[0])
        self.assertIn('up0 out XDP_TX', lines[1])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(SOON))
        self.wait_traced(0)

    def test_nothing_stays_after_a_kill(self):
        process = self.start(VIP)
        self.assertEqual((2, 2), self.traced())
        self.send(with_(TCP))
        process.kill()
        process.wait(SOON)
        self.wait_traced(0)
        self.assertEqual(outcomes.Action.TX, self.send(with_(TCP))[0][0])


class TestTraceRefused(ctl_node.Node):

    def test_trace_without_attached_program_is_refused(self):
        with self.inside(self.node):
            self.datapath.detach(self.ifindex)
        self.assertIn('no interface',
                      self.ctl('trace', VIP, status=2).stderr)
