# SPDX-License-Identifier: Apache-2.0
"""A bed on which traffic is measured: generator, router, two receivers."""

import contextlib
import pathlib
import subprocess
import uuid

from bench.beds import namespaces
from bench.beds import reading
from bench.declarations import document
from bench.traffic import own

ROOT = pathlib.Path(__file__).parents[4]
BED = '''\
name: traffic
hosts:
  generator:
    role: generator
    routes:
      - {to: 203.0.113.0/24, via: between}
      - {to: '2001:db8:113::/48', via: between}
  between:
    role: load_balancer
    sysctl: {net.ipv4.ip_forward: 1, net.ipv6.conf.all.forwarding: 1}
    nic: {front: {receive_xdp: true}}
    routes:
      - {to: 203.0.113.0/25, via: sink}
      - {to: 203.0.113.128/25, via: member}
      - {to: '2001:db8:113::/48', via: sink}
  sink:
    role: sink
  member:
    role: member
links:
  front:
    ends: [generator, between]
    networks: [198.19.0.0/24, '2001:db8:0::/64']
  back:
    ends: [between, sink]
    networks: [198.19.1.0/24, '2001:db8:1::/64']
  side:
    ends: [between, member]
    networks: [198.19.2.0/24, '2001:db8:2::/64']
'''
IPV4 = '203.0.113.1'
IPV4_MEMBER = '203.0.113.129'
IPV6 = '2001:db8:113::1'


def build_programs():
    """What is measured with, as the benchmarks' own make builds it."""
    subprocess.run(['make', '-s', 'bench-traffic'], cwd=ROOT, check=True)


@contextlib.contextmanager
def bed(text=BED):
    """A bed of namespaces, and its run."""
    run = f'test-{uuid.uuid4().hex[:12]}'
    declared = reading.from_document(document.parse(
        text, pathlib.Path('traffic.yaml'), reading.SCHEMA))
    with namespaces.Provider().build(declared, run) as made:
        yield made


@contextlib.contextmanager
def traffic(text=BED):
    """The bed, with our generator and sinks on it."""
    with bed(text) as made, own.OwnSource().open(made) as opened:
        yield made, opened
