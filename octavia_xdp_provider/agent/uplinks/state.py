# SPDX-License-Identifier: Apache-2.0
"""Derives the datapath's uplinks from the kernel's state.

This module does no I/O, but it keeps the last MAC address of each next hop:
while the kernel resolves the next hop again, that address stays in use until
resolution fails.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import netlink

# Next hops: index of the link, and address.
Hops = set[tuple[int, str]]

# Tag protocols that the datapath can write, outer tag first.
_VLAN_PROTOCOLS = ((), (0x8100,), (0x88a8, 0x8100))
_MTU_MAX = 65535


class _Answer(NamedTuple):
    """The last answer of a next hop, and whether it has been silent since."""

    mac: str
    silent: bool = False


class NextHop(NamedTuple):
    """The next hop of one family. ``mac`` is None while it is not used.

    ``last_resort``: it does not answer, but no other uplink is better.
    """

    address: str | None = None
    mac: str | None = None
    last_resort: bool = False


class State(NamedTuple):
    """The current state of an uplink. ``problem``: why it cannot be used.
    ``forwards``: IP versions of incoming packets that the kernel may forward,
    if its routes are used in place of next hops; else None. ``promiscuous``:
    frames flooded to other hosts' addresses are forwarded too."""

    name: str
    problem: str | None = None
    ifindex: int = 0  # of the device below VLANs
    device: str = ''
    mac: str = ''
    mtu: int = 0
    vlans: tuple[int, ...] = ()
    v4: NextHop = NextHop()
    v6: NextHop = NextHop()
    source_v4: str | None = None
    source_v6: str | None = None
    has_program: bool = False
    forwards: tuple[int, ...] | None = None
    promiscuous: bool = False

    def hop(self, version: int) -> NextHop:
        return self.v4 if version == 4 else self.v6

    def carries(self, version: int) -> bool:
        """Return whether packets of a family can leave, as far as known."""
        if self.problem:
            return False
        if self.forwards is not None:
            return version in self.forwards
        hop = self.hop(version)
        return bool(hop.mac) and not hop.last_resort

    @property
    def answering(self) -> int:
        """The number of families that have a next hop that answers."""
        if self.forwards is not None:
            return len(self.forwards)
        return sum(bool(hop.mac) and not hop.last_resort
                   for hop in (self.v4, self.v6))

    @property
    def waits(self) -> bool:
        """Whether a next hop has not answered yet."""
        return not self.problem and self.forwards is None and any(
            hop.address and not hop.mac for hop in (self.v4, self.v6))

    def describe(self) -> str:
        """Return one line for the log."""
        text = self._describe()
        if self.promiscuous:
            text += (f' {self.device} is promiscuous: frames to other hosts\' '
                     'addresses are forwarded as well.')
        return text

    def _describe(self) -> str:
        if self.problem:
            return f'Uplink {self.name} is out: {self.problem}.'
        if self.forwards is not None:
            return (f'Uplink {self.name}: ' + '; '.join(map(
                self._describe_forwarding, (4, 6))) + '.')
        parts = []
        for version in (4, 6):
            hop = self.hop(version)
            if hop.last_resort:
                parts.append(f'IPv{version} goes to {hop.mac}, although '
                             f'{hop.address} does not answer')
            elif hop.mac:
                parts.append(f'IPv{version} goes via {hop.address}, '
                             f'{hop.mac}')
            elif hop.address:
                parts.append(f'no IPv{version}, {hop.address} has not '
                             'answered')
        text = '; '.join(parts) or 'no default route, nothing goes out'
        return f'Uplink {self.name}: {text}.'

    def _describe_forwarding(self, version: int) -> str:
        if version in (self.forwards or ()):
            return f'IPv{version} goes where the kernel\'s routes say'
        return (f'no IPv{version}, net.ipv{version}.conf.{self.device}.'
                'forwarding is 0')

    def report(self) -> dict[str, Any]:
        """Return the state for the operator, as JSON types."""
        fields = self._asdict()
        for name in ('v4', 'v6'):
            fields[name] = fields[name]._asdict()
        return fields


class Uplinks:
    """Tracks the configured uplinks.

    :param names: interfaces, in the order of preference for sources.
    :param next_hops: (name, version) → address, in place of a default route.
    :param by_routes: whether the kernel's routes are looked up for each
        packet, so that uplinks need no next hop.
    """

    def __init__(self, names: Sequence[str],
                 next_hops: Mapping[tuple[str, int], str],
                 by_routes: bool = False) -> None:
        self._names = names
        self._configured = next_hops
        self._by_routes = by_routes
        # By name, version and address.
        self._answered: dict[tuple[str, int, str | None], _Answer] = {}
        self._hops: Hops = set()

    def look(self, snapshot: netlink.Snapshot
             ) -> tuple[tuple[State, ...], Hops]:
        """Derive the states, and the next hops to resolve, of a snapshot."""
        links = {link.name: link for link in snapshot.links.values()}
        self._hops = set()
        ask: Hops = set()
        states = tuple(self._state(name, links.get(name), snapshot, ask)
                       for name in self._names)
        usable = [state for state in states if not state.problem]
        for version in (4, 6):
            if not any(state.hop(version).mac for state in usable):
                states = tuple(self._last_resort(state, version)
                               for state in states)
        return states, ask

    def concerns(self, message: Any) -> bool:
        """Return whether a message of the kernel may change the states."""
        kind: str = message['event']
        if kind.endswith('NEIGH'):
            return ((message['ifindex'], message.get_attr('NDA_DST'))
                    in self._hops)
        if kind.endswith('ROUTE'):
            return bool(message['dst_len'] == 0)
        return True

    def _state(self, name: str, link: netlink.Link | None,
               snapshot: netlink.Snapshot, ask: Hops) -> State:
        problem = _problem(link)
        if link is None:
            return State(name, problem)
        device, vlans, vlan_problem = _below(link, snapshot.links)
        problem = problem or vlan_problem
        if vlans and self._by_routes:
            problem = problem or ('with [datapath] next_hop = routes it must '
                                  'not be a VLAN interface')
        state = State(
            name, problem, device.index, device.name, link.mac or '',
            min(link.mtu, _MTU_MAX), vlans,
            source_v4=snapshot.sources.get((link.index, 4)),
            source_v6=snapshot.sources.get((link.index, 6)),
            has_program=device.has_program,
            forwards=(tuple(sorted(device.forwards)) if self._by_routes
                      else None),
            promiscuous=device.promiscuous)
        if problem:
            for key in [key for key in self._answered if key[0] == name]:
                del self._answered[key]
            return state
        return state._replace(v4=self._hop(name, link, 4, snapshot, ask),
                              v6=self._hop(name, link, 6, snapshot, ask))

    def _hop(self, name: str, link: netlink.Link, version: int,
             snapshot: netlink.Snapshot, ask: Hops) -> NextHop:
        address = (self._configured.get((name, version))
                   or _default_next_hop(link, version, snapshot.routes))
        key = (name, version, address)
        for other in [other for other in self._answered
                      if other[:2] == key[:2] and other != key]:
            del self._answered[other]
        if address is None:
            return NextHop()
        self._hops.add((link.index, address))
        neighbour = snapshot.neighbours.get((link.index, address))
        if neighbour and neighbour.mac:
            if neighbour.stale:
                ask.add((link.index, address))
            self._answered[key] = _Answer(neighbour.mac)
            return NextHop(address, neighbour.mac)
        ask.add((link.index, address))
        last = self._answered.get(key)
        if last and neighbour and neighbour.failed:
            # It stays out until it answers, also while the kernel retries.
            last = self._answered[key] = last._replace(silent=True)
        return NextHop(address, last.mac if last and not last.silent else None)

    def _last_resort(self, state: State, version: int) -> State:
        """Keep sending to the last MAC address until another is known: if
        the next hop is gone, its BGP session ends too."""
        hop = state.hop(version)
        last = self._answered.get((state.name, version, hop.address))
        if state.problem or not last:
            return state
        hop = NextHop(hop.address, last.mac, True)
        return (state._replace(v4=hop) if version == 4
                else state._replace(v6=hop))

    def for_datapath(self, states: tuple[State, ...]
                     ) -> tuple[datapath.Uplink, ...]:
        """Return the uplinks that packets may take."""
        return tuple(
            datapath.Uplink(state.ifindex, state.mtu, state.mac,
                            state.v4.mac, state.v6.mac, state.vlans)
            for state in states if not state.problem and (
                self._by_routes or state.v4.mac or state.v6.mac))

    def ready(self, states: tuple[State, ...], node: datapath.NodeSettings
              ) -> frozenset[int]:
        """Return the families of outer packets that can leave by an uplink.

        :param node: has the sources.
        """
        sources = {4: node.source_v4, 6: node.source_v6}
        usable = [state for state in states if not state.problem]
        if self._by_routes:
            # The fabric may send to any uplink, so all of them must forward.
            return frozenset(
                version for version, source in sources.items()
                if source and usable
                and all(version in (state.forwards or ()) for state in usable))
        return frozenset(
            version for version, source in sources.items()
            if source and any(state.hop(version).mac for state in usable))


def _problem(link: netlink.Link | None) -> str | None:
    if link is None:
        return 'there is no such interface'
    if not link.carrier:
        return 'it is down or has no carrier'
    if not link.mac:
        return 'it has no MAC address'
    return None


def _below(link: netlink.Link, links: Mapping[int, netlink.Link]
           ) -> tuple[netlink.Link, tuple[int, ...], str | None]:
    """Return the device below VLANs, the tags, and their problem or None."""
    tags: list[netlink.Vlan] = []
    while link.vlan:
        tags.insert(0, link.vlan)
        if link.lower is None or link.lower not in links:
            return link, (), ('its VLAN lies on a device of another network '
                              'namespace')
        link = links[link.lower]
    if len(tags) > 2:
        return link, (), 'it has more than two VLAN tags'
    if tuple(tag.protocol for tag in tags) not in _VLAN_PROTOCOLS:
        return link, (), ('a single VLAN tag must be 802.1Q, and the outer '
                          'one of two 802.1ad')
    return link, tuple(tag.id for tag in tags), None


def _default_next_hop(link: netlink.Link, version: int,
                      routes: Sequence[netlink.Route]) -> str | None:
    defaults = [route for route in routes
                if route.link == link.index and route.version == version]
    return min(defaults, key=lambda route: route.metric).next_hop \
        if defaults else None
