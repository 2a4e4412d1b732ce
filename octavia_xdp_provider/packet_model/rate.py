# SPDX-License-Identifier: Apache-2.0
"""Budgets: new flows by source, and answers of the node."""

from octavia_xdp_provider.packet_model import state

SCALE = 1024  # parts of a token


class Sources:
    """A token bucket by service and source (IPv6: its /64)."""

    def __init__(self):
        self.buckets: dict[tuple, list[int]] = {}

    def tokens(self, service: state.Service, source: bytes,
               time_ms: int) -> int:
        """What the source may open now, in parts of a flow."""
        burst = (service.new_flow_burst or service.new_flow_rate) * SCALE
        key = self._key(service, source)
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = [burst, time_ms]
        else:
            passed = (time_ms - bucket[1]) & 0xffffffff
            earned = passed * service.new_flow_rate * SCALE // 1000
            if earned:
                bucket[0] = min(burst, bucket[0] + earned)
                bucket[1] = time_ms
        return bucket[0]

    def take(self, service: state.Service, source: bytes):
        """A flow is opened; there are tokens for it."""
        self.buckets[self._key(service, source)][0] -= SCALE

    @staticmethod
    def _key(service: state.Service, source: bytes) -> tuple[int, bytes]:
        return service.index, source[:8]


class Answers:
    """Packets that the node makes itself, by unit of time."""

    def __init__(self, node: state.Node):
        self.node = node
        self.time = None
        self.packets = 0

    def take(self, time: int) -> bool:
        if time != self.time:
            self.time = time
            self.packets = 0
        if self.packets >= self.node.icmp_rate:
            return False
        self.packets += 1
        return True
