# SPDX-License-Identifier: Apache-2.0
"""Steps 1 and 5 of a pass: what is withdrawn, and what is announced."""

import ipaddress
import time

from oslo_log import log as logging

from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp.route import Route

LOG = logging.getLogger(__name__)

# Seconds to wait for ExaBGP to take a withdrawal before services go anyway:
# if it does not answer, its sessions and with them the routes are gone.
WITHDRAW_TIMEOUT = 3.0


class Announcing:
    """Belongs to the worker's thread.

    :param announce: bgp.announcements.Announcements.
    :param errors: files.FileErrors.
    :param next_hop_v6: of IPv6 VIPs, or None.
    :param conf: its groups ``agent`` and ``bgp``.
    """

    def __init__(self, announce, errors, conf):
        self._announce = announce
        self._errors = errors
        self._conf = conf
        self._last = None  # what the file was made from, and its signature

    def withdraw(self, vips):
        """Withdraw every VIP that is not one of these.

        :returns: those that could not be, as texts.
        """
        before = self._announce.wanted()
        after = {prefix: route for prefix, route in before.items()
                 if str(prefix.network_address) in vips}
        gone = before.keys() - after.keys()
        if not gone:
            return set()
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
        time.sleep(self._conf.agent.withdraw_grace)
        return set()

    def announce(self, able, ready, draining=frozenset()):
        """Announce these VIPs, and no other.

        :param able: VIP → sets of families, one for each of its services
            that has a member which takes traffic: of outer packets.
        :param ready: families (4, 6) of outer packets that can be sent on.
            What needs another one, or everything while it is not known what
            is wanted and the set is empty, may only become less.
        :param draining: VIPs that routers shall use as a last resort.
        """
        able = {vip: frozenset(needed) for vip, needed in able.items()}
        wanted = (able, ready, draining, *self._attributes())
        now = (wanted, self._announce.signature())
        if now == self._last and 'announcements' not in self._errors:
            return
        held = set(map(str, self._announce.wanted()))
        routes = []
        for vip, needed in sorted(able.items()):
            prefix = _prefix(vip)
            if prefix not in held and not any(
                    families <= ready for families in needed):
                continue
            try:
                self._announce.check(prefix)
            except announcements.AnnouncementError as error:
                LOG.error('Not announced: %s', error)
            else:
                routes.append(Route.parse(
                    prefix, self._next_hop(prefix),
                    **self._attributes()[vip in draining]))
        if self._errors.write('announcements',
                              lambda: self._announce.set(routes)):
            LOG.info('Announcing %s.', ', '.join(
                str(route.prefix) for route in routes) or 'nothing')
        self._last = (wanted, self._announce.signature())

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

    def _next_hop(self, prefix):
        return self._conf.agent.next_hop_v6 if ':' in prefix else None


def _prefix(address):
    """The route to an address alone."""
    return str(ipaddress.ip_network(address))
