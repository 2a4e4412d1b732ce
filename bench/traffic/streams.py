# SPDX-License-Identifier: Apache-2.0
"""Converts profiles to streams of one generator: the file for ``send``."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import ipaddress

import numpy

from bench import errors
from bench.traffic import formats
from bench.traffic import interface
from bench.traffic import next_hops
from bench.traffic import sizes

CONSTANTS = formats.constants
PORTS = 64512  # ports of each client: 1024 and above
SLOTS_MAX = 65536
FASTEST = 10_000_000  # packets/s for which bits are kept without a rate
OPENINGS = 200_000  # maximum rate at which flows are opened, packets/s
OPENING_SECONDS_MAX = 120
BURST_NS = 20_000_000


def check(profile: interface.Profile, rate: float | None,
          seconds: float) -> None:
    """:raises BenchError: the profile cannot be sent."""
    _check_choices(profile)
    _check_destinations(profile)
    _check_flows(profile)
    sizes.check(profile)
    if not 0 < seconds <= CONSTANTS.SECONDS_MAX:
        raise errors.BenchError(
            f'{seconds} seconds of traffic: more than 0 and up to '
            f'{CONSTANTS.SECONDS_MAX} are possible')
    if rate is not None and not rate > 0:
        raise errors.BenchError(f'a rate of {rate} packets/s; leave it out '
                                'for as many as possible')


def _check_choices(profile: interface.Profile) -> None:
    if profile.kind not in formats.KINDS:
        raise errors.BenchError(
            f'traffic of the kind {profile.kind!r}; there are '
            f'{", ".join(formats.KINDS)}')
    for destination in profile.destinations:
        if destination.protocol not in formats.PROTOCOLS:
            raise errors.BenchError(
                f'{destination.address}: protocol {destination.protocol!r}; '
                f'there are {", ".join(formats.PROTOCOLS)}')
        if profile.kind == 'syn' and destination.protocol != 'tcp':
            raise errors.BenchError(
                f'{destination.address}: {destination.protocol} has no SYN; '
                'a flood of it is traffic with flows: 0')
        if profile.kind == 'opened' and destination.protocol == 'udp':
            raise errors.BenchError(
                f'{destination.address}: nothing opens flows of udp; use '
                'established')


def _check_destinations(profile: interface.Profile) -> None:
    if not 1 <= len(profile.destinations) <= CONSTANTS.DESTINATIONS_MAX:
        raise errors.BenchError(
            f'{len(profile.destinations)} destinations; from 1 to '
            f'{CONSTANTS.DESTINATIONS_MAX} are possible')
    for destination in profile.destinations:
        if destination.weight < 1 or not 0 < destination.port < 65536:
            raise errors.BenchError(
                f'{destination.address}: port {destination.port}, weight '
                f'{destination.weight}; ports are from 1 to 65535, weights '
                'from 1 on')
    for version in _versions(profile):
        _clients(profile, version)


def _versions(profile: interface.Profile) -> set[int]:
    return {sizes.address_of(each.address).version
            for each in profile.destinations}


def _check_flows(profile: interface.Profile) -> None:
    if not 0 <= profile.flows <= CONSTANTS.FLOWS_MAX:
        raise errors.BenchError(
            f'{profile.flows} flows; up to {CONSTANTS.FLOWS_MAX} are '
            'possible, 0 for another one with each packet')
    if profile.flows and profile.flows < len(profile.destinations):
        raise errors.BenchError(
            f'{profile.flows} flows to {len(profile.destinations)} '
            'destinations: some would get nothing; use as many at least')
    if not profile.flows and profile.kind == 'opened':
        raise errors.BenchError(
            'flows: 0 and opened: each packet would be a SYN; that is the '
            'kind syn')
    if (not profile.flows and
            len(profile.destinations) > SLOTS_MAX // 2):
        raise errors.BenchError(
            f'flows: 0 to {len(profile.destinations)} destinations; up to '
            f'{SLOTS_MAX // 2} are possible')


def _network(text: str, version: int):
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise errors.BenchError(f'network of clients: {error}') from None
    if network.version != version:
        raise errors.BenchError(
            f'{text}: destinations of IPv{version} need clients of IPv'
            f'{version}; name their network')
    return network


def _clients(profile: interface.Profile, version: int) -> tuple[int, int]:
    """Return the first address, and how many a generator can use."""
    network = _network(profile.sources if version == 4 else
                       profile.sources_v6, version)
    count = min(network.num_addresses, 2 ** 32)
    if count < 4:
        return int(network.network_address), count
    return int(network.network_address) + 1, count - 2


def _slots(profile: interface.Profile, flows: int) -> numpy.ndarray:
    """Return the destinations of consecutive flows, by weight."""
    count = min(flows or SLOTS_MAX, SLOTS_MAX)
    weights = numpy.array([each.weight for each in profile.destinations])
    # Each destination gets at least one slot.
    spare = count - weights.size
    ends = numpy.cumsum(weights) * spare // weights.sum()
    slots = numpy.repeat(numpy.arange(weights.size),
                         numpy.diff(ends, prepend=0) + 1)
    # Shuffle, or neighbouring flows would go to the same destination.
    return numpy.random.default_rng(count).permutation(slots)


@dataclasses.dataclass(frozen=True)
class Stream:
    """A profile, or one generator's part of it.

    :ivar packets: limit, beyond which sinks could not count.
    :ivar structure: struct stream.
    """

    id: int
    profile: interface.Profile
    rate: float | None
    flows: int
    packets: int
    seed: int
    structure: object
    destinations: bytes
    slots: numpy.ndarray
    sizes: list[int]

    def encoded(self) -> bytes:
        """Return the stream's part of the file for ``send``."""
        data = (formats.encoded(self.structure) + self.destinations +
                self.slots.astype('<u2').tobytes() +
                numpy.array(self.sizes, '<u2').tobytes())
        return data + b'\0' * (-len(data) % 8)

    def expected(self):
        """Return struct expected_stream, for sinks."""
        return formats.ffi.new('struct expected_stream *', {
            'packets': self.packets, 'flows': self.flows,
            'destinations': len(self.profile.destinations), 'id': self.id})


def _interval(rate: float | None) -> int:
    return round(65536e9 / rate) if rate else 0


def _packets(rate: float | None, seconds: float) -> int:
    """Return the limit, with room for bursts of a late token bucket."""
    return min(round((rate or FASTEST) * seconds) + 1, 2 ** 32 - 64)


def _opening_rate(rate: float | None, flows: int) -> float:
    opening = min(rate or OPENINGS, OPENINGS)
    if flows / opening > OPENING_SECONDS_MAX:
        raise errors.BenchError(
            f'{flows} flows at {opening:.0f} packets/s take more than '
            f'{OPENING_SECONDS_MAX} seconds to open; use fewer flows, or '
            'established')
    return opening


def _destinations(profile: interface.Profile,
                  hops: Mapping[str, next_hops.NextHop]) -> bytes:
    array = formats.ffi.new('struct destination[]', len(profile.destinations))
    for place, each in zip(array, profile.destinations, strict=True):
        address, hop = sizes.address_of(each.address), hops[each.address]
        place.address[0:len(address.packed)] = address.packed
        place.port = int.from_bytes(each.port.to_bytes(2, 'big'), 'little')
        place.version = address.version
        place.protocol = formats.PROTOCOLS[each.protocol]
        place.next_hop = list(bytes.fromhex(hop.mac.replace(':', '')))
        place.source_mac = list(
            bytes.fromhex(hop.source_mac.replace(':', '')))
        place.ifindex = hop.ifindex
    return bytes(formats.ffi.buffer(array))


def _check_mtu(longest: int, hops: Mapping[str, next_hops.NextHop]) -> None:
    for hop in set(hops.values()):
        if longest > hop.mtu + sizes.ETHERNET:
            raise errors.BenchError(
                f'frames of {longest} bytes: {hop.device} has an MTU of '
                f'{hop.mtu} and takes up to {hop.mtu + sizes.ETHERNET}')


def _part(total: int, index: int, count: int) -> int:
    return total * (index + 1) // count - total * index // count


def _set_clients(structure, profile: interface.Profile,
                 part: tuple[int, int]) -> None:
    """Set client addresses, disjoint for generators, like their flows."""
    for version in _versions(profile):
        first, count = _clients(profile, version)
        first += count * part[0] // part[1]
        count = _part(count, *part)
        flows = structure.flows or (
            structure.packets if profile.kind != 'syn' else 1)
        if count * PORTS < flows:
            raise errors.BenchError(
                f'{flows} flows from {count} addresses; there are {PORTS} of '
                'each, so clients need a larger network')
        if version == 4:
            structure.clients_v4, structure.clients = first, count
        else:
            structure.network_v6 = list(first.to_bytes(16, 'big'))
            structure.clients_v6 = count


def make(profile: interface.Profile, rate: float | None, seconds: float,
         hops: Mapping[str, next_hops.NextHop], identifier: int,
         part: tuple[int, int] = (0, 1)) -> Stream:
    """Return what one generator sends of a profile checked by `check`.

    :param rate: rate of this generator.
    :param identifier: 16-bit id of the stream, whose lowest four bits are
        unique among streams.
    :param part: (index of the generator, number of generators).
    :raises BenchError: it cannot be sent.
    """
    flows = _part(profile.flows, *part) if profile.flows else 0
    if profile.flows and flows < len(profile.destinations):
        raise errors.BenchError(
            f'{profile.flows} flows of {part[1]} generators: fewer for each '
            f'than the {len(profile.destinations)} destinations')
    chosen = sizes.expanded(profile.sizes)
    openings = ([sizes.opening(each) for each in profile.destinations]
                if profile.kind == 'opened' else [])
    longest = max(chosen + openings)
    _check_mtu(longest, hops)
    slots = _slots(profile, flows)
    structure = formats.ffi.new('struct stream *', {
        'duration_ns': round(seconds * 1e9), 'interval': _interval(rate),
        'opening_interval': _interval(_opening_rate(rate, flows))
        if openings else 0,
        'packets': _packets(rate, seconds), 'burst_ns': BURST_NS,
        'flows': flows, 'seed': identifier * 0x9e3779b1 & 0xffffffff,
        'destinations': len(profile.destinations), 'slots': len(slots),
        'sizes': len(chosen),
        'frame': max(longest, CONSTANTS.FRAME_HEAD), 'id': identifier,
        'kind': formats.KINDS[profile.kind]})
    _set_clients(structure, profile, part)
    return Stream(identifier, profile, rate, flows, structure.packets,
                  structure.seed, structure, _destinations(profile, hops),
                  slots, chosen)


def send_file(streams: Sequence[Stream]) -> bytes:
    """Return the file for ``send``."""
    head = formats.ffi.new('struct send_file *', {
        'version': CONSTANTS.FORMAT_VERSION, 'streams': len(streams)})
    return formats.encoded(head) + b''.join(each.encoded() for each in streams)


def receive_file(streams: Sequence[Stream]) -> bytes:
    """Return the file for ``receive``."""
    head = formats.ffi.new('struct receive_file *', {
        'version': CONSTANTS.FORMAT_VERSION, 'streams': len(streams)})
    return formats.encoded(head) + b''.join(
        formats.encoded(each.expected()) for each in streams)
