# SPDX-License-Identifier: Apache-2.0
"""NAT of this node: its pools, and who gets how much of them."""

import ipaddress
import typing
import zlib

from oslo_log import log as logging

from octavia_xdp_provider.agent import peers_wait
from octavia_xdp_provider.agent import seeking
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import messages
from octavia_xdp_provider.common import nat
from octavia_xdp_provider.common import nat_options
from octavia_xdp_provider.node import datapath

LOG = logging.getLogger(__name__)

# Of the datapath (octavia_xdp.h): OXP_NAT_GROUPS, OXP_NAT_FLOWS_MAX.
GROUPS = 256
FLOWS_MAX = 16776960


class Share(typing.NamedTuple):
    """What the services of one project have of the ports together.

    ``group``: number by which the datapath knows the project. ``flows``: how
    many it may have. ``idle_times``: transport → seconds after which those
    that are established end, where nobody says otherwise.
    """

    group: int
    flows: int
    idle_times: dict[str, int]


class Nat:
    """Belongs to the worker's thread, but for ``report``.

    :param conf: its group ``nat``.
    :param own_addresses: gives the node's own addresses, texts.
    :param gave_up: see peers_wait.PeersWait.
    :ivar seeking: seeking.Seeking.
    :ivar wait: peers_wait.PeersWait.
    :ivar problem: why the pools are not as configured, or None.
    :ivar version: another one whenever plans may be.
    """

    def __init__(self, conf, dataplane, own_addresses,
                 gave_up=lambda: None):
        self._datapath = dataplane
        self._own_addresses = own_addresses
        self._wanted = nat_options.pools(conf)
        self._flows = min(FLOWS_MAX, nat_options.share(
            self._wanted, conf.nat.tenant_share))
        self._idle_times = {'TCP': conf.nat.tcp_established_timeout,
                            'UDP': conf.nat.udp_established_timeout}
        self._timeouts = datapath.NatTimeouts(
            conf.nat.tcp_opening_timeout, conf.nat.tcp_closing_timeout,
            conf.nat.tcp_time_wait_timeout, conf.nat.udp_opening_timeout)
        self._groups = {}  # project → number
        # As they are in the datapath. Those that were there before this
        # process stay announced.
        there = set(dataplane.nat_pools()) if self._wanted else ()
        self.pools = tuple(pool for pool in self._wanted
                           if str(pool) in there)
        self.problem = None
        self.version = 0
        self._host = conf.host
        self._peers = None if self._wanted else ()  # wanted; None: not known
        self._peers_set = None  # in the datapath, as far as it is known
        self._peers_problem = None
        self._moving = False  # as long as nothing else is known
        # Those that an agent before this one knew are there still.
        self._peers_there = dataplane.nat_peers() if self._wanted else []
        self.wait = peers_wait.PeersWait(
            not self._wanted or bool(self._peers_there), gave_up)
        self.seeking = seeking.Seeking(dataplane, max(
            conf.nat.udp_opening_timeout, conf.nat.udp_established_timeout))

    @property
    def is_wanted(self):
        """Whether there are pools in the configuration. For any thread."""
        return bool(self._wanted)

    def want_peers(self, peers, moving=False):
        """Hand packets of unknown flows on to these nodes. For any thread.

        :param peers: messages.NatPeers. Without this node it hands on
            nothing.
        :param moving: whether flows are moved among them by plan.
        :returns: whether anything is different from before.
        """
        wanted = tuple(one['address'] for one in peers)
        if self._host not in {one['host'] for one in peers}:
            if peers and self._peers != ():
                LOG.warning(
                    'This node hands on no packets of NAT: of the IP version '
                    'of the others\' pools it has none, its pools are not '
                    'reported yet, or %s other nodes do.', len(peers))
            wanted = ()
        before = self._peers, self._moving
        self._peers, self._moving = wanted, moving
        return (wanted, moving) != before

    @property
    def has_others(self):
        """Whether there is a node that packets are handed on to."""
        return len(self._peers_there) > 1

    def refresh_peers(self):
        """Make the peers as wanted, once that is known, and seek UDP flows
        while these are on the move."""
        wanted = self._peers
        if wanted is not None and wanted != self._peers_set:
            self._set_peers(wanted)
        if self._moving:
            self.seek_udp()

    def seek_udp(self):
        """UDP flows of other nodes may come here now."""
        if self.has_others:
            self.seeking.extend()

    def _set_peers(self, wanted):
        problem = None
        try:
            if len(wanted) > 1 and list(wanted) != self._peers_there:
                # Routers do not agree yet which nodes there are.
                self.seeking.extend()
            self._datapath.set_nat_peers(wanted)
            self._peers_set = wanted
            self._peers_there = list(wanted)
            if wanted:
                self.wait.found(len(wanted))
        except datapath.DatapathError as error:
            if datapath.is_stale(error):
                raise
            # Of pools that have just changed, say; the next ones will do.
            problem = error.text
            if problem != self._peers_problem:
                LOG.error('Packets of NAT are not handed on to %s: %s',
                          ', '.join(wanted), problem)
        self._peers_problem = problem

    def refresh(self):
        """Make time-outs and pools as configured, the latter unless this
        takes an address from the node itself."""
        before = self.pools, self.problem
        problem = self._set_timeouts()
        self.problem = self._conflict() or self._set() or problem
        if self.problem and self.problem != before[1]:
            LOG.error('%s', self.problem)
        if (self.pools, self.problem) != before:
            self.version += 1
            self._peers_set = None
            LOG.info('NAT has the pools %s.',
                     ', '.join(map(str, self.pools)) or 'of nobody')

    def _conflict(self):
        for text in sorted(self._own_addresses()):
            address = ipaddress.ip_address(text)
            for pool in self._wanted:
                if address in pool:
                    return (f'[nat] pools: {pool} has {address}, an address '
                            'of this node itself: nothing of the pools has '
                            'changed')
        return None

    def _set_timeouts(self):
        try:
            if self._wanted and (self._timeouts !=
                                 self._datapath.nat_timeouts()):
                self._datapath.set_nat_timeouts(self._timeouts)
                LOG.info('NAT has the time-outs %s.', self._timeouts)
        except datapath.DatapathError as error:
            if datapath.is_stale(error):
                raise
            return f'[nat] time-outs: {error.text}'
        return None

    def _set(self):
        wanted = tuple(map(str, self._wanted))
        try:
            if wanted != tuple(self._datapath.nat_pools()):
                self._datapath.set_nat_pools(wanted)
        except datapath.DatapathError as error:
            if datapath.is_stale(error):
                raise
            return f'[nat] pools: {error.text}'
        self.pools = self._wanted
        return None

    def share(self, document):
        """The Share of a load balancer with forwarding nat.

        :raises Refused: this node cannot reach its members.
        """
        if not self.pools and self.problem:
            raise errors.Refused('flavor', self.problem,
                                 'correct it on this node')
        lack = nat.lack(map(str, self.pools), nat.versions(document))
        if lack:
            raise errors.Refused(
                'flavor', f'this node cannot forward by NAT: {lack}',
                'set [nat] pools on it')
        return Share(self._group(nat.project(document)), self._flows,
                     self._idle_times)

    def _group(self, name):
        """A number of its own as long as there are any: it begins to look
        at one that is the same after a restart."""
        if name not in self._groups:
            taken = set(self._groups.values())
            first = zlib.crc32(name.encode()) % GROUPS
            self._groups[name] = next(
                (number for number in (
                    (first + step) % GROUPS for step in range(GROUPS))
                 if number not in taken), first)
        return self._groups[name]

    def keep_groups(self, names):
        """Forget the groups of all other projects."""
        self._groups = {name: number for name, number
                        in self._groups.items() if name in names}

    def report(self, flows):
        """messages.NatState, or None without pools that are wanted. For any
        thread.

        :param flows: project → flows that are alive.
        """
        pools, problem = self.pools, self.problem
        said = {'problem': problem[:messages.TEXT_MAX]} if problem else {}
        if not pools:
            return {'pools': [], **said} if said else None
        most = sorted(flows, key=lambda name: (-flows[name], name))
        return {
            'pools': [str(pool) for pool in pools],
            'ports': nat_options.PORTS * sum(
                pool.num_addresses for pool in pools),
            'flows': sum(flows.values()), 'share': self._flows,
            'peers': len(self._peers_set or ()),
            'projects': {name: flows[name] for name
                         in most[:messages.NAT_PROJECTS_MAX]}, **said}
