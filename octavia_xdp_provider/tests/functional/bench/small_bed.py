# SPDX-License-Identifier: Apache-2.0
"""A small bed of namespaces."""

import pathlib
import uuid

from bench.beds import reading
from bench.declarations import document

BED = '''\
name: small
hosts:
  gen:
    role: generator
    routes:
      - {to: 203.0.113.0/24, via: router}
      - {to: '2001:db8:113::/48', via: router}
  router:
    role: router
    sysctl: {net.ipv4.ip_forward: 1, net.ipv6.conf.all.forwarding: 1,
             net.ipv4.fib_multipath_hash_policy: 1}
    routes:
      - {to: 203.0.113.0/24, via: lb, mtu: 1400}
      - {to: '2001:db8:113::/48', via: lb}
  lb:
    role: load_balancer
    count: 2
    loopback: [203.0.113.1/32, '2001:db8:113::1/128']
    sysctl: {net.ipv4.conf.uplink.rp_filter: 2}
    nic: {uplink: {queues: 2, offloads: {gro: on}}}
    routes:
      - {to: 198.19.0.0/24, via: router}
      - {to: '2001:db8::/64', via: router}
  sink:
    role: sink
links:
  front:
    ends: [gen, router]
    networks: [198.19.0.0/24, '2001:db8::/64']
  uplink:
    ends: [router, lb]
    networks: [198.19.1.0/24, '2001:db8:1::/64']
    mtu: 9000
    offloads: {tx: off, tso: off, gso: off}
    permanent_neighbours: true
  back:
    ends: [lb, sink]
    kind: segment
    networks: [198.19.2.0/24]
'''


def new_run():
    return f'test-{uuid.uuid4().hex[:12]}'


def declared(text=BED):
    return reading.from_document(document.parse(
        text, pathlib.Path('small.yaml'), reading.SCHEMA))
