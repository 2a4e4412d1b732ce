# SPDX-License-Identifier: Apache-2.0
"""Test beds that are up, whichever provider builds them.

Scenarios, traffic and software under test use nothing else of a bed, so they
work the same on namespaces, guests and real machines.
"""

from collections.abc import Mapping
import contextlib
import dataclasses
import json
from typing import Any
from typing import Protocol

from bench.beds import channel
from bench.beds import declaration
from bench.beds import nics

GENERATOR, LOAD_BALANCER, ROUTER, MEMBER, SINK = ROLES = (
    'generator', 'load_balancer', 'router', 'member', 'sink')
Host, Interface, Process = channel.Host, channel.Interface, channel.Process


@dataclasses.dataclass
class Bed:
    """Hosts that are up, with their links.

    :ivar machines: one host on each machine with its own kernel, by the
        machine's name.
    :ivar described: what else the fingerprint has.
    :ivar counts_instructions: its clock counts instructions of emulated
        processors; figures are independent of other load, and its seconds
        differ from those of this machine.
    :ivar installed: the product's packages by host, which are under test:
        version and a digest of their files. None: this checkout is.
    """

    declared: declaration.Bed
    hosts: Mapping[str, Host]
    machines: Mapping[str, Host]
    described: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    counts_instructions: bool = False
    installed: Mapping[str, Mapping[str, str]] | None = None

    @property
    def name(self) -> str:
        return self.declared.name

    def by_role(self, role: str) -> list[Host]:
        """Return hosts with a role, in the order of the declaration."""
        return [host for host in self.hosts.values() if host.role == role]

    def fingerprint(self) -> dict[str, Any]:
        """Return what can change results, as JSON, for fingerprint.py."""
        return {
            'provider': self.declared.provider,
            'declaration': self.declared.content,
            **self.described,
            **({} if self.installed is None
               else {'installed': self.installed}),
            'interfaces': {
                host.name: {name: nics.describe(host, end.name)
                            for name, end in host.interfaces.items()
                            if end.peers}
                for host in self.hosts.values()},
        }


class Provider(Protocol):
    """Builds beds of one kind."""

    name: str

    def build(self, declaration, run: str,
              ) -> contextlib.AbstractContextManager[Bed]:
        """Build a bed, and take it down when the context ends.

        :param declaration: beds.declaration.Bed.
        :param run: unique name that is part of all names that are made, so
            that leftovers of a killed run can be recognized and removed.
        :raises BenchError: it cannot be built; nothing is left behind.
        """


def macs(host: Host) -> dict[str, str]:
    """Return MAC addresses by interface name."""
    shown = json.loads(host.run(['ip', '-json', 'link', 'show']).stdout)
    return {link['ifname']: link['address']
            for link in shown if 'address' in link}


def interfaces(declared: declaration.Bed, name: str,
               known: Mapping[str, Mapping[str, str]],
               ) -> dict[str, Interface]:
    """Return Host.interfaces of a host.

    :param known: MAC addresses of all hosts, see macs().
    """
    own = declared.hosts[name]
    made = {}
    for key, (link, end) in declared.ends(name).items():
        real = own.access.interfaces[key] if (
            own.access and declared.provider == declaration.SSH) else key
        made[key] = Interface(
            real, link.name, known[name][real], end.nic.mtu, end.addresses,
            tuple(other.host for other in link.ends if other is not end))
    if own.loopback:
        made['lo'] = Interface(
            'lo', 'lo', '00:00:00:00:00:00', 65536, own.loopback, ())
    return made
