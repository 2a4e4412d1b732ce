# SPDX-License-Identifier: Apache-2.0
"""A bed on which traffic is measured: generator, router, two receivers."""

import contextlib
import pathlib
import socket
import subprocess
import uuid

from oslotest import base

from bench.beds import namespaces
from bench.beds import reading
from bench.beds import runs
from bench.declarations import document
from bench.traffic import generator
from lab import namespaces as lab_namespaces

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
    permanent_neighbours: true
    networks: [198.19.1.0/24, '2001:db8:1::/64']
  side:
    ends: [between, member]
    permanent_neighbours: true
    networks: [198.19.2.0/24, '2001:db8:2::/64']
'''
PATIENCE = 60  # seconds for a frame: first, what sends it has to start
IPV4 = '203.0.113.1'
IPV4_MEMBER = '203.0.113.129'
IPV6 = '2001:db8:113::1'


def build_programs():
    """What is measured with, as the benchmarks' own make builds it."""
    subprocess.run(['make', '-s', 'bench-traffic'], cwd=ROOT, check=True)


_ETH_P_ALL = 3


@contextlib.contextmanager
def bed(text=BED):
    """A bed of namespaces, and the name of its run."""
    run = f'test-{uuid.uuid4().hex[:12]}'
    declared = reading.from_document(document.parse(
        text, pathlib.Path('traffic.yaml'), reading.SCHEMA))
    with namespaces.Provider().build(declared, run) as made:
        yield made, run


@contextlib.contextmanager
def traffic(text=BED):
    """The bed, our generator and sinks on it, and its run."""
    with bed(text) as (made, run), generator.opened(made) as opened:
        yield made, opened, run


class TrafficCase(base.BaseTestCase):
    """The traffic of one bed for all tests."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        build_programs()
        cls.bed, cls.traffic, cls.run_name = cls.enterClassContext(traffic())


@contextlib.contextmanager
def frames(run, host, device):
    """A socket that sends and receives frames at a host's interface."""
    with lab_namespaces.entered(runs.namespace(run, host)):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                               socket.htons(_ETH_P_ALL))
    with opened:
        opened.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
        opened.bind((device, 0))
        opened.settimeout(PATIENCE)
        yield opened


def received(opened, wanted, count):
    """The first frames for which `wanted` holds, that came from outside."""
    captured = []
    while len(captured) < count:
        data, address = opened.recvfrom(4096)
        if address[2] != socket.PACKET_OUTGOING and wanted(data):
            captured.append(data)
    return captured
