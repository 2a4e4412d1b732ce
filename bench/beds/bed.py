# SPDX-License-Identifier: Apache-2.0
"""Beds that are up, whichever provider has built them."""

from collections.abc import Mapping
import dataclasses
import json
from typing import Any

from bench.beds import declaration
from bench.beds import interface
from bench.beds import nics


@dataclasses.dataclass
class Bed:
    """See interface.Bed.

    :ivar described: what else the fingerprint has.
    """

    declared: declaration.Bed
    hosts: Mapping[str, interface.Host]
    machines: Mapping[str, interface.Host]
    described: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    counts_instructions: bool = False

    @property
    def name(self) -> str:
        return self.declared.name

    def by_role(self, role: str) -> list[interface.Host]:
        return [host for host in self.hosts.values() if host.role == role]

    def fingerprint(self) -> dict[str, Any]:
        return {
            'provider': self.declared.provider,
            'declaration': self.declared.content,
            **self.described,
            'interfaces': {
                host.name: {name: nics.describe(host, end.name)
                            for name, end in host.interfaces.items()
                            if end.peers}
                for host in self.hosts.values()},
        }


def macs(host: interface.Host) -> dict[str, str]:
    """Return MAC addresses by interface name."""
    shown = json.loads(host.run(['ip', '-json', 'link', 'show']).stdout)
    return {link['ifname']: link['address']
            for link in shown if 'address' in link}


def interfaces(declared: declaration.Bed, name: str,
               known: Mapping[str, Mapping[str, str]],
               ) -> dict[str, interface.Interface]:
    """Return interface.Host.interfaces of a host.

    :param known: MAC addresses of all hosts, see macs().
    """
    own = declared.hosts[name]
    made = {}
    for key, (link, end) in declared.ends(name).items():
        real = own.access.interfaces[key] if (
            own.access and declared.provider == declaration.SSH) else key
        made[key] = interface.Interface(
            real, link.name, known[name][real], end.nic.mtu, end.addresses,
            tuple(other.host for other in link.ends if other is not end))
    if own.loopback:
        made['lo'] = interface.Interface(
            'lo', 'lo', '00:00:00:00:00:00', 65536, own.loopback, ())
    return made
