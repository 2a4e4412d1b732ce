# SPDX-License-Identifier: Apache-2.0
"""A declaration of a bed, and how variants of it are refused."""

import pathlib

from bench import errors
from bench.beds import reading
from bench.declarations import document
from octavia_xdp_provider.tests.unit import base

GOOD = '''\
name: some
hosts:
  gen:
    role: generator
    routes:
      - {to: 203.0.113.0/24, via: router}
  router:
    role: router
    sysctl: {net.ipv4.ip_forward: 1}
    routes:
      - {to: 203.0.113.0/24, via: lb, mtu: 1500}
      - {to: '2001:db8:113::/64', via: [lb1, lb2]}
  lb:
    role: load_balancer
    count: 2
    nic:
      uplink: {queues: 2, offloads: {gro: on}}
  sink:
    role: sink
    loopback: [203.0.113.1/32]
links:
  front:
    ends: [gen, router]
    networks: [198.19.0.0/24]
  uplink:
    ends: [router, lb]
    networks: [198.19.1.0/24, '2001:db8:1::/64']
    mtu: 1600
    offloads: {tx: off}
  back:
    ends: [router, sink]
    addresses:
      router: [198.19.2.1/24]
      sink: [198.19.2.2/24, 198.19.2.3/24]
sysctl: {net.ipv4.conf.all.rp_filter: 0}
'''
PATH = pathlib.Path('bed.yaml')


class BedCase(base.TestCase):

    def read(self, text=GOOD, provider=None, path=PATH):
        return reading.from_document(
            document.parse(text, path, reading.SCHEMA), provider)

    def changed(self, *changes, text=GOOD):
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        return text

    def check_refused(self, text, where, changes, parts, path=PATH):
        """Check the error of a changed declaration.

        :param where: how the line begins that the error names.
        :param parts: parts of the error's text.
        """
        text = self.changed(*changes, text=text)
        error = self.assertRaises(errors.DeclarationError, self.read, text,
                                  None, path)
        for part in parts:
            self.assertIn(part, error.text)
        line = text.splitlines()[error.line - 1].strip()
        self.assertTrue(line.startswith(where), f'{line!r}: {error}')
