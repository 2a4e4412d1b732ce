# SPDX-License-Identifier: Apache-2.0
"""Frames that a driver splits into several buffers."""

import random

from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.packets.support import compared

ETHERNET = 14  # the kernel makes no shorter first buffer
# Behind the transport's offset: a TCP header, or an ICMP error's quote.
TRANSPORT = 128


class SplitFrames(compared.Compared):
    """Each frame that may be is split, at random."""

    def __init__(self, node, **options):
        self.rng = random.Random()
        self.split = 0
        super().__init__(node, **options)

    def first_buffer(self, frame):
        packet = parse.parse(frame)
        end = len(frame)
        if not isinstance(packet, parse.Ignored):
            if packet.wrong is not None:
                return 0
            # Bytes behind the packet stay in the buffer of its last byte.
            end = packet.end
            if packet.transport > compared.PULLED:
                end = packet.transport  # out of reach
            elif packet.transport > compared.PULLED - TRANSPORT:
                return 0
        if end <= ETHERNET + 1:
            return 0
        self.split += 1
        if self.rng.random() < 0.5:
            end = min(end, 100)
        return self.rng.randrange(ETHERNET, max(end, ETHERNET + 1))
