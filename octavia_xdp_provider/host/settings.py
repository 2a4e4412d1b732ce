# SPDX-License-Identifier: Apache-2.0
"""The hypervisor's own interfaces and addresses, for the datapath.

They are taken from the options and from the kernel's present links. Whatever
is missing is reported and the rest is used: without its reply interface, a
hypervisor still delivers packets of flows to its members.
"""

import typing

from oslo_config import cfg

from octavia_xdp_provider.config import host_options
from octavia_xdp_provider.host import links as links_module
from octavia_xdp_provider.host import types


class Settings(typing.NamedTuple):
    """``underlay``: indices of the existing underlay interfaces; ``mtu``:
    their smallest MTU in bytes, 0 without any; ``problems``: texts."""

    datapath: types.Settings
    underlay: tuple[int, ...]
    mtu: int
    problems: tuple[str, ...]

    @property
    def geneve(self) -> list[str]:
        """Addresses to which LB nodes may send Geneve."""
        return [address for address in (self.datapath.local_v4,
                                        self.datapath.local_v6) if address]


def interfaces(conf: cfg.ConfigOpts) -> set[str]:
    """Return the names of the interfaces that ``find`` depends on."""
    options = conf.host_agent
    return {*options.underlay_interfaces,
            *filter(None, [options.reply_interface])}


def find(conf: cfg.ConfigOpts, snapshot: links_module.Snapshot) -> Settings:
    """Return settings from the options and a snapshot of the kernel."""
    options = conf.host_agent
    problems = [
        f'there is no interface {name} ([host_agent] underlay_interfaces): '
        'LB nodes do not reach members through it'
        for name in options.underlay_interfaces if name not in snapshot.links]
    underlay = [snapshot.links[name] for name in options.underlay_interfaces
                if name in snapshot.links]
    settings = types.Settings(
        reply_ifindex=_reply_ifindex(options, snapshot, problems),
        **_addresses(conf, snapshot, problems))
    return Settings(settings, tuple(link.index for link in underlay),
                    min((link.mtu for link in underlay), default=0),
                    tuple(problems))


def _reply_ifindex(options: typing.Any, snapshot: links_module.Snapshot,
                   problems: list[str]) -> int:
    name = options.reply_interface or options.underlay_interfaces[0]
    link = snapshot.links.get(name)
    if link is not None:
        return link.index
    if options.reply_interface:
        problems.append(
            f'there is no interface {name} ([host_agent] reply_interface): '
            'answers of members are dropped')
    return 0


def _addresses(conf: cfg.ConfigOpts, snapshot: links_module.Snapshot,
               problems: list[str]) -> dict[str, typing.Any]:
    options = conf.host_agent
    first = options.underlay_interfaces[0]
    v4 = v6 = sid = None
    if host_options.GENEVE in options.encapsulations:
        v4 = options.local_address or snapshot.address(first, 4)
        v6 = options.local_address_v6 or snapshot.address(first, 6)
    if host_options.SRV6 in options.encapsulations:
        network = host_options.sid_network(conf)
        sid = str(network.network_address) if network else None
    if not (v4 or v6 or sid):
        problems.append(
            'LB nodes cannot reach this hypervisor: no encapsulation of '
            '[host_agent] encapsulations has an address; set local_address, '
            'local_address_v6 or sid_prefix')
    return {'local_v4': v4, 'local_v6': v6, 'sid': sid}
