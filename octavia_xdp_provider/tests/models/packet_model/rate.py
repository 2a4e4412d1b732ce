# SPDX-License-Identifier: Apache-2.0
"""Rate limits of new flows by source, and of the node's own answers."""

import collections
import enum
import struct

from octavia_xdp_provider.tests.models.packet_model import ages
from octavia_xdp_provider.tests.models.packet_model import select
from octavia_xdp_provider.tests.models.packet_model import state

SCALE = 1024  # units of a token


class Sources:
    """Token buckets by service and source (IPv6: its /64)."""

    def __init__(self):
        self.buckets: dict[tuple, list[int]] = {}

    def tokens(self, service: state.Service, source: bytes,
               time_ms: int) -> int:
        """Return what the source may open now, in 1/SCALE of a flow."""
        burst = (service.new_flow_burst or service.new_flow_rate) * SCALE
        key = self._key(service, source)
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = [burst, time_ms]
        else:
            passed = ages.since(bucket[1], time_ms, 0xffffffff, ages.AHEAD_MS)
            earned = passed * service.new_flow_rate * SCALE // 1000
            if earned:
                bucket[0] = min(burst, bucket[0] + earned)
                bucket[1] = time_ms
        return bucket[0]

    def take(self, service: state.Service, source: bytes):
        """Take the tokens of an opened flow, which must be there."""
        self.buckets[self._key(service, source)][0] -= SCALE

    @staticmethod
    def _key(service: state.Service, source: bytes) -> tuple[int, bytes]:
        return service.index, source[:8]


class Answer(enum.Enum):
    """Kinds of answers of the node, each with its own budget."""

    ECHO = 'echo'
    TOO_BIG = 'too big'
    RESET = 'reset'


class Answers:
    """Counts the node's own packets in a unit of time."""

    SHARE = 8  # a source may use this fraction of a budget
    SOURCES = 256

    def __init__(self, node: state.Node):
        self.node = node
        self.time = None
        self.sent: collections.Counter = collections.Counter()

    def take(self, kind: Answer, source: bytes, time: int) -> bool:
        if time != self.time:
            self.time = time
            self.sent.clear()
        rate = self.node.icmp_rate
        own = kind, self.place(source)
        if self.sent[own] >= -(-rate // self.SHARE) or self.sent[kind] >= rate:
            return False
        self.sent[own] += 1
        self.sent[kind] += 1
        return True

    def place(self, source: bytes) -> int:
        """Return the counter for answers to the source (IPv6: its /64)."""
        words = struct.unpack('<2I' if len(source) > 4 else '<I', source[:8])
        value = words[0] if len(words) == 1 else words[0] << 32 | words[1]
        value = (value ^ self.node.seed) * select.FIRST & select.MASK
        value ^= value >> 32
        value = value * select.SECOND & select.MASK
        return (value >> 32) % self.SOURCES
