# SPDX-License-Identifier: Apache-2.0
"""A bed of namespaces: a generator, a router, load balancers and members, each
on a link of its own to the router."""

import contextlib
import pathlib
import secrets
import tempfile

from bench.beds import namespaces
from bench.beds import reading

_DECLARATION = '''\
name: peers
hosts:
  generator:
    role: generator
    routes: &by-the-router
      - {{to: 0.0.0.0/0, via: router}}
      - {{to: '::/0', via: router}}
  router:
    role: router
    sysctl: {{net.ipv4.ip_forward: 1, net.ipv6.conf.all.forwarding: 1,
             net.ipv4.fib_multipath_hash_policy: 1}}
    routes:
      - {{to: 198.18.0.0/16, via: generator}}
      - {{to: '2001:db8:18::/48', via: generator}}
  lb: {{role: load_balancer, count: {nodes}, routes: *by-the-router}}
  member: {{role: member, count: 2, routes: *by-the-router}}
sysctl:
  net.ipv4.conf.all.rp_filter: 0
  net.ipv4.conf.default.rp_filter: 0
  net.ipv6.conf.all.accept_dad: 0
  net.ipv6.conf.default.accept_dad: 0
links:
  front:
    ends: [generator, router]
    networks: [198.19.0.0/30, '2001:db8:19::/126']
    offloads: &checksums-in-packets {{tx: off, tso: off, gso: off}}
  uplink:
    ends: [router, lb]
    kind: pairs
    networks: [198.19.1.0/24, '2001:db8:19:1::/64']
    mtu: 1600
    offloads: *checksums-in-packets
  back:
    ends: [router, member]
    kind: pairs
    networks: [198.19.2.0/24, '2001:db8:19:2::/64']
    mtu: 1600
    offloads: *checksums-in-packets
'''


@contextlib.contextmanager
def build(nodes=1):
    """A bed of so many load balancers, and two members."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'peers.yaml'
        path.write_text(_DECLARATION.format(nodes=nodes))
        declared = reading.read(path)
    with namespaces.Provider().build(declared, secrets.token_hex(4)) as bed:
        yield bed


def hosts(bed, group):
    """Those of a group of hosts, in order."""
    return [host for name, host in bed.hosts.items()
            if name.startswith(group)]


def address(host, version=4):
    """Its first one on a link."""
    link = next(iter(host.interfaces.values()))
    return next(prefix.split('/')[0] for prefix in link.addresses
                if (':' in prefix) == (version == 6))
