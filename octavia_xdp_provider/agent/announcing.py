# SPDX-License-Identifier: Apache-2.0
"""Steps 1 and 5 of a pass: withdraw VIPs, announce VIPs."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Set
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.agent import files as agent_files
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp.route import Route
from octavia_xdp_provider.contracts.address_policy import Network

LOG = logging.getLogger(__name__)

Attributes = dict[str, Any]

# Addresses that one log line lists.
_NAMED_MAX = 20

# Seconds to wait for ExaBGP to confirm a withdrawal before services are
# deleted anyway: if it does not answer, its sessions and routes are gone too.
WITHDRAW_TIMEOUT = 3.0


class Announcing:
    """Withdraws and announces VIPs. Used by the worker's thread only.

    :param conf: provides the groups ``agent`` and ``bgp``.
    :param pools: returns the NAT pools. They are announced as long as they
        are configured: flows of withdrawn VIPs may still use them.
    :param moves: called with the VIPs whose routes are new or changed,
        before the change can attract packets to the node.
    """

    def __init__(self, announce: announcements.Announcements,
                 errors: agent_files.FileErrors, conf: cfg.ConfigOpts,
                 pools: Callable[[], tuple[Network, ...]] = tuple,
                 moves: Callable[[Set[str]], None] = lambda vips: None
                 ) -> None:
        self._announce = announce
        self._errors = errors
        self._conf = conf
        self._pools = pools
        self._moves = moves
        # Inputs of the last file, and its signature.
        self._last: tuple[Any, ...] = ()
        self._routes: dict[str, tuple[Attributes, Route]] = {}  # by VIP
        # Withdrawn VIP → monotonic time when its services may be deleted.
        self._leaving: dict[str, float] = {}

    def withdraw(self, vips: Set[str]) -> set[str]:
        """Withdraw every announced VIP that is not in ``vips``.

        Packets to those may still arrive for a while, see ``leaving``.

        :returns: the VIPs that could not be withdrawn.
        """
        now = time.monotonic()
        self._leaving = {vip: until for vip, until in self._leaving.items()
                         if vip not in vips and until > now}
        held = self._announce.wanted_addresses()
        pools = set(self._pools())
        gone = {prefix for address in held.keys() - vips
                for prefix in held[address] if prefix not in pools}
        if not gone:
            return set()
        after = {prefix: route for prefix, route
                 in self._announce.wanted().items() if prefix not in gone}
        if self._errors.write('announcements', lambda: (
                self._announce.set(after.values()))) is None:
            return {str(prefix.network_address) for prefix in gone}
        LOG.info('Withdrawing %s.', ', '.join(map(str, gone)))
        deadline = time.monotonic() + WITHDRAW_TIMEOUT
        while time.monotonic() < deadline:
            status = self._announce.status()
            if status is None or not gone & status.announced:
                break
            time.sleep(0.02)
        else:
            LOG.warning('ExaBGP has not confirmed the withdrawal of %s '
                        'within %s s.', ', '.join(map(str, gone)),
                        WITHDRAW_TIMEOUT)
        until = time.monotonic() + self._conf.agent.withdraw_grace
        self._leaving.update((str(prefix.network_address), until)
                             for prefix in gone)
        return set()

    @property
    def leaving(self) -> set[str]:
        """The VIPs withdrawn less than [agent] withdraw_grace ago."""
        now = time.monotonic()
        return {vip for vip, until in self._leaving.items() if until > now}

    def leaving_s(self) -> float | None:
        """Return the seconds until the first of them has left, or None."""
        until = min(self._leaving.values(), default=None)
        return None if until is None else max(0.0, until - time.monotonic())

    def announce(self, able: Mapping[str, Iterable[frozenset[int]]],
                 ready: frozenset[int], draining: Set[str] = frozenset(),
                 staying: Set[str] = frozenset()) -> None:
        """Announce these VIPs and no others.

        :param able: VIP → sets of outer packet families, one set for each
            service of the VIP with a member that takes traffic.
        :param ready: outer packet families (4, 6) that can be forwarded. A
            VIP that needs others keeps its announcement but gets no new one,
            and so does every VIP if the set is empty before the first fetch.
        :param draining: VIPs that routers should use as a last resort.
        :param staying: VIPs whose routes must not change.
        """
        self._announce.keep_room()
        able = {vip: frozenset(needed) for vip, needed in able.items()}
        usual, as_last_resort = self._attributes()
        pools = self._pools()
        wanted = (able, ready, draining, staying, usual, as_last_resort,
                  pools)
        now = (wanted, self._announce.signature())
        if now == self._last and 'announcements' not in self._errors:
            return
        held = dict(self._announce.wanted_addresses())
        # Members' answers must reach this node, during a drain as well.
        routes = [self._pool_route(pool, usual) for pool in pools]
        before = self._announce.wanted()
        moved = set()
        for vip, needed in sorted(able.items()):
            if vip not in held and not any(
                    families <= ready for families in needed):
                continue
            try:
                route = (vip in staying and _host_route(held.get(vip, ()),
                                                        before)) or (
                    self._route(vip, as_last_resort if vip in draining
                                else usual))
            except announcements.AnnouncementError as error:
                LOG.error('Not announced: %s', error)
                continue
            routes.append(route)
            if route != before.get(route.prefix):
                moved.add(vip)
        self._routes = {key: self._routes[key] for key in able
                        if key in self._routes}
        if moved:
            self._moves(moved)
        if self._errors.write('announcements',
                              lambda: self._announce.set(routes)):
            after = self._announce.wanted_addresses().keys()
            LOG.info('Announcing %s prefixes: added %s, removed %s.',
                     len(routes), _describe(after - held.keys()),
                     _describe(held.keys() - after))
        self._last = (wanted, self._announce.signature())

    def _pool_route(self, pool: Network, attributes: Attributes) -> Route:
        return Route.parse(
            str(pool), self._conf.agent.next_hop_v6 if pool.version == 6
            else None, **attributes)

    def _attributes(self) -> tuple[Attributes, Attributes]:
        """Return the attributes of usual and of last-resort routes."""
        conf = self._conf.bgp
        usual = {'communities': tuple(conf.communities),
                 'large_communities': tuple(conf.large_communities),
                 'med': conf.med,
                 'local_preference': conf.local_preference}
        overrides = {name: value for name, value in (
            ('med', conf.drain_med),
            ('local_preference', conf.drain_local_preference))
            if value is not None}
        return usual, {
            **usual, **overrides,
            'communities': (*conf.communities, *conf.drain_communities),
            'as_path_prepend': conf.drain_as_path_prepend}

    def _route(self, vip: str, attributes: Attributes) -> Route:
        """Return the host route of a VIP.

        :raises AnnouncementError: the VIP may not be announced.
        """
        cached = self._routes.get(vip)
        if cached and cached[0] == attributes:
            return cached[1]
        route = Route.parse(
            self._announce.check(vip),
            self._conf.agent.next_hop_v6 if ':' in vip else None,
            **attributes)
        self._routes[vip] = attributes, route
        return route


def _host_route(prefixes: Iterable[Network], routes: Mapping[Network, Route]
                ) -> Route | None:
    """Return the host route among an address' prefixes, or None."""
    return next((routes[prefix] for prefix in prefixes
                 if prefix.num_addresses == 1), None)


def _describe(addresses: Set[str]) -> str:
    """Format addresses for the log; a long list is cut."""
    named = ' '.join(sorted(addresses)[:_NAMED_MAX])
    more = len(addresses) - _NAMED_MAX
    return f'{named} and {more} more' if more > 0 else named or 'none'
