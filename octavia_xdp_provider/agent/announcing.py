# SPDX-License-Identifier: Apache-2.0
"""Steps 1 and 5 of a pass: what is withdrawn, and what is announced."""

import time

from oslo_log import log as logging

from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp.route import Route

LOG = logging.getLogger(__name__)

# Addresses that a line of the log names.
_NAMED_MAX = 20

# Seconds to wait for ExaBGP to take a withdrawal before services go anyway:
# if it does not answer, its sessions and with them the routes are gone.
WITHDRAW_TIMEOUT = 3.0


class Announcing:
    """Belongs to the worker's thread.

    :param announce: bgp.announcements.Announcements.
    :param errors: files.FileErrors.
    :param next_hop_v6: of IPv6 VIPs, or None.
    :param conf: its groups ``agent`` and ``bgp``.
    :param pools: gives the networks of NAT, which are announced as long as
        the agent has them: flows of VIPs that are withdrawn may live.
    :param moves: called before more packets come to the node, with the VIPs
        whose routes are new or others.
    """

    def __init__(self, announce, errors, conf, pools=tuple,
                 moves=lambda vips: None):
        self._announce = announce
        self._errors = errors
        self._conf = conf
        self._pools = pools
        self._moves = moves
        self._last = None  # what the file was made from, and its signature
        self._routes = {}  # VIP → attributes, route
        # VIP that was withdrawn → when its services may go, monotonic.
        self._leaving = {}

    def withdraw(self, vips):
        """Withdraw every VIP that is not one of these.

        Packets to them may come for a while yet, see ``leaving``.

        :returns: those that could not be, as texts.
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
    def leaving(self):
        """VIPs that were withdrawn less than [agent] withdraw_grace ago."""
        now = time.monotonic()
        return {vip for vip, until in self._leaving.items() if until > now}

    def leaving_s(self):
        """Seconds until the services of the first of them may go, or None."""
        until = min(self._leaving.values(), default=None)
        return None if until is None else max(0.0, until - time.monotonic())

    def announce(self, able, ready, draining=frozenset(),
                 staying=frozenset()):
        """Announce these VIPs, and no other.

        :param able: VIP → sets of families, one for each of its services
            that has a member which takes traffic: of outer packets.
        :param ready: families (4, 6) of outer packets that can be sent on.
            What needs another one, or everything while it is not known what
            is wanted and the set is empty, may only become less.
        :param draining: VIPs that routers shall use as a last resort.
        :param staying: VIPs whose routes stay as they are.
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
        # Nobody else can take the answers of members, in a drain neither.
        routes = [self._pool_route(pool, usual) for pool in pools]
        before = self._announce.wanted()
        moved = set()
        for vip, needed in sorted(able.items()):
            if vip not in held and not any(
                    families <= ready for families in needed):
                continue
            try:
                route = (vip in staying and _route_held(held.get(vip, ()),
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
            now = self._announce.wanted_addresses()
            LOG.info('Announcing %s prefixes: added %s, removed %s.',
                     len(routes), _some(now.keys() - held.keys()),
                     _some(held.keys() - now.keys()))
        self._last = (wanted, self._announce.signature())

    def _pool_route(self, pool, attributes):
        return Route.parse(
            str(pool), self._conf.agent.next_hop_v6 if pool.version == 6
            else None, **attributes)

    def _attributes(self):
        """Attributes of usual routes, and of those as a last resort."""
        conf = self._conf.bgp
        usual = {'communities': tuple(conf.communities),
                 'large_communities': tuple(conf.large_communities),
                 'med': conf.med,
                 'local_preference': conf.local_preference}
        drained = {name: value for name, value in (
            ('med', conf.drain_med),
            ('local_preference', conf.drain_local_preference))
            if value is not None}
        return usual, {
            **usual, **drained,
            'communities': (*conf.communities, *conf.drain_communities),
            'as_path_prepend': conf.drain_as_path_prepend}

    def _route(self, vip, attributes):
        """The route to the address alone.

        :raises AnnouncementError: it may not be announced.
        """
        before = self._routes.get(vip)
        if before and before[0] == attributes:
            return before[1]
        route = Route.parse(
            self._announce.check(vip),
            self._conf.agent.next_hop_v6 if ':' in vip else None,
            **attributes)
        self._routes[vip] = attributes, route
        return route


def _route_held(prefixes, routes):
    """The route that an address alone has, of its prefixes, or None."""
    return next((routes[prefix] for prefix in prefixes
                 if prefix.num_addresses == 1), None)


def _some(addresses):
    """Addresses for the log, not all of very many."""
    named = ' '.join(sorted(addresses)[:_NAMED_MAX])
    more = len(addresses) - _NAMED_MAX
    return f'{named} and {more} more' if more > 0 else named or 'none'
