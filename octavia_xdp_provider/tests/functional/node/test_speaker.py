# SPDX-License-Identifier: Apache-2.0
"""The contract of speakers, with a real ExaBGP and a real BIRD."""

import os
import socket
import sys

from lab import processes
from octavia_xdp_provider.agent.bgp import exabgp
from octavia_xdp_provider.tests.functional.support import bgp
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.support import speakers

PIPES = 'octavia_xdp_provider.tests.functional.support.pipe_passing'


class TestExaBgp(speakers.SpeakerContract, bgp.BgpCase):
    """In a session to another AS."""

    bird, session = bgp.BIRD, bgp.SESSION
    not_carried = frozenset(('local_preference',))

    def setUp(self):
        super().setUp()
        if self.bird != bgp.BIRD:
            self.start_bird(self.bird)
        path = str(self.directory / 'pipes')
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen()
        listener.settimeout(self.SOON)
        self.write_exabgp_config([self.session],
                                 command=[sys.executable, '-m', PIPES, path])
        self.start_exabgp()
        connection, _ = listener.accept()
        self.addCleanup(connection.close)
        _data, (reader, writer), _flags, _address = socket.recv_fds(
            connection, 1, 2)
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        self.speaker = exabgp.ExaBgp(reader, writer)
        self.speaker.synchronise()
        self.wait('session', lambda: all(
            neighbour.up for neighbour in self.speaker.neighbours().values()))

    def eventually(self, what, condition):
        self.wait(what, condition)

    def sent(self):
        return self.routes_with_attributes()

    def end_session(self):
        processes.kill(self.lab, 'bird')

    def end_speaker(self):
        processes.kill(self.lab, 'exabgp')


@form.in_long_form
class TestExaBgpWithinOneAs(TestExaBgp):

    bird, session = bgp.BIRD_IBGP, bgp.SESSION_IBGP
    not_carried = frozenset(('as_path_prepend',))
