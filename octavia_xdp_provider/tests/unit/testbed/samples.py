# SPDX-License-Identifier: Apache-2.0
"""An inventory, and a clock that is set by hand."""

from octavia_xdp_provider.tests.unit import clocks
from testbed import database
from testbed import inventory
from testbed import leases

BEGIN = 1_800_000_000
TEXT = '''\
longest_lease_hours: 48
switches:
  leaf1: {address: 192.0.2.2, as: 65000, announced: [203.0.113.0/24]}
machines:
  gen1:
    role: generator
    address: 192.0.2.11
    ports:
    - {switch: leaf1, port: swp1, addresses: [198.18.0.1/24]}
  lb1:
    role: load_balancer
    address: 192.0.2.12
    mac: 52:54:00:00:00:01
    ports:
    - switch: leaf1
      port: swp2
      addresses: [198.18.1.1/30, '2001:db8:1::1/126']
      bgp: {address: 198.18.1.2, as: 65001}
  lb2:
    role: load_balancer
    address: 192.0.2.13
    mac: 52:54:00:00:00:02
    ports:
    - switch: leaf1
      port: swp3
      addresses: [198.18.1.1/30]
      bgp: {address: 198.18.1.2, as: 65001}
kernels:
  debian-6.12:
    kernel: vmlinuz
    initramfs: initramfs
    root: root.img
    parameters: console=ttyS0 fetch=@root@
boot: {interface: mgmt0, address: 192.0.2.1, network: 192.0.2.0/24}
'''


def write(folder, text=TEXT):
    """An inventory and its kernels' files in a folder; its path."""
    for name in ('vmlinuz', 'initramfs', 'root.img'):
        (folder / name).write_bytes(name.encode())
    path = folder / 'inventory.yaml'
    path.write_text(text)
    return path


class Site:
    """An inventory with leases, in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.known = inventory.load(write(folder))
        self.clock = clocks.Clock(BEGIN)
        self.leases = leases.Leases(
            database.open_file(folder / database.FILE), self.clock)

    def reserve(self, *machines, owner='alice', hours=8, purpose='rates',
                kernel=None):
        return self.leases.reserve(owner, machines, hours, purpose,
                                   self.known, kernel)
