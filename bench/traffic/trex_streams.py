# SPDX-License-Identifier: Apache-2.0
"""Converts a profile to streams of TRex, whose field engine writes signatures.

Each destination and size has a TRex stream with its own flows, which sends
packets in order of their numbers. Numbers are interleaved: of n streams, the
first has 0, n, 2n and so on, the next 1, n + 1. Packets of a stream use its
flows in turn.
"""

import base64
import dataclasses
import ipaddress

import numpy

from bench import errors
from bench.traffic import formats
from bench.traffic import interface
from bench.traffic import sizes
from bench.traffic import streams

STREAMS_MAX = 256
# DPDK's types of layer 4 headers, as the field engine uses them.
L4_TYPES = {'udp': 11, 'tcp': 13}
PORT = 1024


def check(profile: interface.Profile) -> None:
    """:raises BenchError: the profile is not supported with TRex."""
    for destination in profile.destinations:
        if destination.protocol not in L4_TYPES:
            raise errors.BenchError(
                f'trex sends no {destination.protocol} here; the source own '
                'does')
    if profile.kind != 'established' or not profile.flows:
        raise errors.BenchError(
            f'trex sends established flows here, not {profile.kind} with '
            f'flows: {profile.flows}; the source own does')
    count = len(profile.destinations) * len(profile.sizes)
    if count > STREAMS_MAX:
        raise errors.BenchError(
            f'{count} streams of trex, one for each destination and size; up '
            f'to {STREAMS_MAX} are possible')
    if profile.flows < count:
        raise errors.BenchError(
            f'{profile.flows} flows of {count} streams of trex, one for each '
            'destination and size, which have flows of their own; use as '
            'many flows at least')


@dataclasses.dataclass(frozen=True)
class Part:
    """A stream of TRex.

    :ivar share: its weight among all parts.
    :ivar flows: (first flow, number of flows).
    """

    index: int
    destination: interface.Destination
    size: int
    share: int
    flows: tuple[int, int]


def parts(profile: interface.Profile) -> list[Part]:
    """Return a part for each destination and size, with equally many flows."""
    wanted = [(destination, size, weight * destination.weight)
              for destination in profile.destinations
              for size, weight in profile.sizes]
    ends = [profile.flows * index // len(wanted)
            for index in range(len(wanted) + 1)]
    return [Part(index, destination, size, share,
                 (ends[index], ends[index + 1] - ends[index]))
            for index, (destination, size, share) in enumerate(wanted)]


def _client(profile: interface.Profile, version: int, flows: int) -> int:
    network = ipaddress.ip_network(profile.sources if version == 4
                                   else profile.sources_v6)
    if network.version != version or network.num_addresses < flows + 2:
        raise errors.BenchError(
            f'{network}: trex has a client address of IPv{version} for each '
            f'of {flows} flows; clients need a larger network')
    return int(network.network_address) + 1


def _checksum(data: bytes) -> int:
    total = sum(int.from_bytes(data[at:at + 2], 'big')
                for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def _ip(part: Part, client: int) -> bytes:
    address = sizes.address_of(part.destination.address)
    length = part.size - sizes.ETHERNET
    protocol = {'udp': 17, 'tcp': 6}[part.destination.protocol]
    if address.version == 6:
        return (b'\x60\0\0\0' + (length - 40).to_bytes(2, 'big') +
                bytes([protocol, 64]) + client.to_bytes(16, 'big') +
                address.packed)
    head = (b'\x45\0' + length.to_bytes(2, 'big') + b'\0\0\x40\0' +
            bytes([64, protocol]) + b'\0\0' + client.to_bytes(4, 'big') +
            address.packed)
    return head[:10] + _checksum(head).to_bytes(2, 'big') + head[12:]


def _transport(part: Part, length: int) -> bytes:
    ports = PORT.to_bytes(2, 'big') + part.destination.port.to_bytes(2, 'big')
    if part.destination.protocol == 'udp':
        return ports + length.to_bytes(2, 'big') + b'\0\0'
    return ports + bytes(8) + b'\x50\x18\xff\xff' + bytes(4)


def _signature(part: Part, identifier: int, index: int) -> bytes:
    return formats.encoded(formats.ffi.new('struct signature *', {
        'magic': formats.constants.SIGNATURE_MAGIC, 'stream': identifier,
        'flow': part.flows[0], 'number': part.index, 'destination': index}))


def _variable(name: str, first: int, last: int, step: int, offset: int,
              big: bool) -> list[dict]:
    return [{'type': 'flow_var', 'name': name, 'size': 4, 'op': 'inc',
             'init_value': first, 'min_value': first, 'max_value': last,
             'step': step},
            {'type': 'write_flow_var', 'name': name, 'pkt_offset': offset,
             'add_value': 0, 'is_big_endian': big}]


def stream(part: Part, profile: interface.Profile, identifier: int,
           count: int) -> dict:
    """Return the JSON of a stream.

    :param identifier: stream id in the signature.
    :param count: number of TRex streams.
    """
    version = sizes.address_of(part.destination.address).version
    first, flows = part.flows
    client = _client(profile, version, profile.flows) + first
    ip = _ip(part, client)
    rest = part.size - sizes.ETHERNET - len(ip)
    transport = _transport(part, rest)
    at = sizes.ETHERNET + len(ip) + len(transport)
    # MAC addresses are those of the port, as "flags" sets no others.
    data = bytes(12) + (b'\x08\0' if version == 4 else b'\x86\xdd') + (
        ip + transport + _signature(
            part, identifier, profile.destinations.index(part.destination)))
    last_number = (0xffffffff - part.index) // count * count + part.index
    address = client & 0xffffffff
    source_at = sizes.ETHERNET + (12 if version == 4 else 20)
    signature = {'flow': at + 4, 'number': at + 8}
    instructions = [
        *_variable('number', part.index, last_number, count,
                   signature['number'], False),
        *_variable('flow', first, first + flows - 1, 1, signature['flow'],
                   False),
        *_variable('client', address, address + flows - 1, 1, source_at,
                   True),
        {'type': 'fix_checksum_hw', 'l2_len': sizes.ETHERNET,
         'l3_len': len(ip), 'l4_type': L4_TYPES[part.destination.protocol]}]
    return {
        'enabled': True, 'self_start': True, 'isg': 0.0, 'flags': 0,
        'action_count': 0, 'next_stream_id': -1,
        'packet': {'binary': base64.b64encode(
            data.ljust(part.size, b'\0')).decode(), 'meta': ''},
        'mode': {'type': 'continuous',
                 'rate': {'type': 'pps', 'value': part.share}},
        'vm': {'instructions': instructions},
        'flow_stats': {'enabled': False}}


def expected(profile: interface.Profile, rate: float | None, seconds: float,
             identifier: int) -> streams.Stream:
    """Return the stream that sinks have to count.

    TRex streams send different numbers of packets, and those that send more
    use higher numbers, for which there is additional room.
    """
    every = parts(profile)
    total = sum(part.share for part in every)
    most = max(part.share for part in every) / total * len(every)
    packets = min(round((rate or streams.FASTEST) * seconds * most * 1.1) +
                  64 * len(every), 2 ** 32 - 64)
    return streams.Stream(identifier, profile, rate, profile.flows, packets,
                          0, None, b'', numpy.zeros(0, int), [])


def losses(profile: interface.Profile, missing: numpy.ndarray) -> set[int]:
    """Return the flows of the packets with these numbers."""
    every = parts(profile)
    flows = set()
    for part in every:
        numbers = missing[missing % len(every) == part.index]
        first, count = part.flows
        flows.update(int(flow) for flow in numpy.unique(
            first + numbers // len(every) % count))
    return flows
