# SPDX-License-Identifier: Apache-2.0
"""Profiles of traffic, and the streams that are made of them."""

from bench.traffic import interface
from bench.traffic import next_hops
from bench.traffic import streams

HOP = next_hops.NextHop('eth0', 7, 1500, '02:00:00:00:00:01',
                        '02:00:00:00:00:02')


def to(*addresses, protocol='udp', port=80, weight=1):
    return tuple(interface.Destination(address, port, protocol, weight)
                 for address in addresses)


def make(profile, rate=1000.0, seconds=1, part=(0, 1), hop=HOP):
    streams.check(profile, rate, seconds)
    return streams.make(
        profile, rate, seconds,
        {each.address: hop for each in profile.destinations}, 0x120, part)
