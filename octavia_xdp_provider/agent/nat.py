# SPDX-License-Identifier: Apache-2.0
"""NAT of this node: its pools, and how projects share them."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Set
import ipaddress
import typing
import zlib

from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.agent import nat_peers
from octavia_xdp_provider.api import nat
from octavia_xdp_provider.config import nat_options
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.node import datapath

LOG = logging.getLogger(__name__)

# OXP_NAT_GROUPS and OXP_NAT_FLOWS_MAX of octavia_xdp.h.
GROUPS = 256
FLOWS_MAX = 16776960


class Share(typing.NamedTuple):
    """The share of the pools' ports for all services of one project.

    ``group``: the project's number in the datapath. ``flows``: the limit of
    its flows. ``idle_times``: transport protocol → default idle timeout of
    established flows in seconds.
    """

    group: int
    flows: int
    idle_times: dict[str, int]


class Nat:
    """Pools and shares; for the worker's thread unless noted.

    :param conf: provides the group ``nat``, and ``host``.
    :param own_addresses: returns the node's own addresses (str).
    :param gave_up: see peers_wait.PeersWait.
    :ivar peers: nat_peers.Peers.
    :ivar problem: why the pools are not as configured, or None.
    :ivar version: changes whenever plans may change.
    """

    def __init__(self, conf: cfg.ConfigOpts, dataplane: datapath.Datapath,
                 own_addresses: Callable[[], Iterable[str]],
                 gave_up: Callable[[], None] = lambda: None) -> None:
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
        self._groups: dict[str, int] = {}  # project → number
        # The pools of the datapath. Configured ones from before a restart
        # stay announced.
        current = set(dataplane.nat_pools() if self._wanted else ())
        self.pools = tuple(pool for pool in self._wanted
                           if str(pool) in current)
        self.problem: str | None = None
        self.version = 0
        self.peers = nat_peers.Peers(conf, dataplane, bool(self._wanted),
                                     gave_up)

    @property
    def is_wanted(self) -> bool:
        """Whether pools are configured. For any thread."""
        return bool(self._wanted)

    def refresh(self) -> None:
        """Set timeouts and pools as configured, but no pool that contains an
        address of the node itself."""
        before = self.pools, self.problem
        problem = self._set_timeouts()
        self.problem = self._find_conflict() or self._set_pools() or problem
        if self.problem and self.problem != before[1]:
            LOG.error('%s', self.problem)
        if (self.pools, self.problem) != before:
            self.version += 1
            self.peers.forget()
            LOG.info('NAT pools: %s.',
                     ', '.join(map(str, self.pools)) or 'none')

    def _find_conflict(self) -> str | None:
        for text in sorted(self._own_addresses()):
            address = ipaddress.ip_address(text)
            for pool in self._wanted:
                if address in pool:
                    return (f'[nat] pools: {pool} contains {address}, an '
                            'address of this node itself: no pool has been '
                            'changed')
        return None

    def _set_timeouts(self) -> str | None:
        try:
            if self._wanted and (self._timeouts !=
                                 self._datapath.nat_timeouts()):
                self._datapath.set_nat_timeouts(self._timeouts)
                LOG.info('NAT timeouts: %s.', self._timeouts)
        except datapath.DatapathError as error:
            if datapath.is_stale(error):
                raise
            return f'[nat] time-outs: {error.text}'
        return None

    def _set_pools(self) -> str | None:
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

    def share(self, document: spec.Document) -> Share:
        """Return the Share of a load balancer with forwarding nat.

        :raises Refused: this node has no suitable pools.
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

    def _group(self, name: str) -> int:
        """Return the group of a project, unique while there are free ones.
        The search starts at a hash, to find the same after a restart."""
        if name not in self._groups:
            taken = set(self._groups.values())
            first = zlib.crc32(name.encode()) % GROUPS
            self._groups[name] = next(
                (number for number in (
                    (first + step) % GROUPS for step in range(GROUPS))
                 if number not in taken), first)
        return self._groups[name]

    def keep_groups(self, names: Set[str | None]) -> None:
        """Forget the groups of all other projects."""
        self._groups = {name: number for name, number
                        in self._groups.items() if name in names}

    def report(self, flows: dict[str, int]) -> messages.NatState | None:
        """Return messages.NatState, or None if no pools are configured. For
        any thread.

        :param flows: project → live flows.
        """
        pools, problem = self.pools, self.problem
        state: messages.NatState = {'pools': []}
        if problem:
            state['problem'] = problem[:messages.TEXT_MAX]
        if not pools:
            return state if problem else None
        projects = sorted(flows, key=lambda name: (-flows[name], name))
        return {
            **state,
            'pools': [str(pool) for pool in pools],
            'ports': nat_options.PORTS * sum(
                pool.num_addresses for pool in pools),
            'flows': sum(flows.values()), 'share': self._flows,
            'peers': self.peers.number,
            'projects': {name: flows[name] for name
                         in projects[:messages.NAT_PROJECTS_MAX]}}
