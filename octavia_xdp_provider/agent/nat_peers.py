# SPDX-License-Identifier: Apache-2.0
"""The nodes that hand packets of unknown NAT flows on to each other."""

from collections.abc import Callable

from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.agent import peers_wait
from octavia_xdp_provider.agent import seeking
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.node import datapath

LOG = logging.getLogger(__name__)


class Peers:
    """The peers in the datapath; for the worker's thread unless noted.

    :param has_pools: whether this node does NAT.
    :param gave_up: see peers_wait.PeersWait.
    :ivar seeking: seeking.Seeking.
    :ivar wait: peers_wait.PeersWait.
    """

    def __init__(self, conf: cfg.ConfigOpts, dataplane: datapath.Datapath,
                 has_pools: bool, gave_up: Callable[[], None]) -> None:
        self._datapath = dataplane
        self._host = conf.host
        # None: not known yet.
        self._wanted: tuple[str, ...] | None = None if has_pools else ()
        self._set: tuple[str, ...] | None = None  # last; None: unknown
        self._problem: str | None = None
        self._moving = False  # until the controller answers
        # The datapath still has the peers from before a restart.
        self._present = dataplane.nat_peers() if has_pools else []
        self.wait = peers_wait.PeersWait(
            not has_pools or bool(self._present), gave_up)
        self.seeking = seeking.Seeking(dataplane, max(
            conf.nat.udp_opening_timeout, conf.nat.udp_established_timeout))

    def want(self, peers: list[messages.NatPeer], moving: bool = False
             ) -> bool:
        """Hand packets of unknown flows on to these nodes. For any thread.

        :param peers: if this node is not among them, it hands no packets on.
        :param moving: whether flows are being moved among them on purpose.
        :returns: whether anything has changed.
        """
        wanted = tuple(peer['address'] for peer in peers)
        if self._host not in {peer['host'] for peer in peers}:
            if peers and self._wanted != ():
                LOG.warning(
                    'This node hands no NAT packets on: it has no pool of the '
                    'peers\' IP version, its pools are not reported yet, or '
                    '%s other nodes already do.', len(peers))
            wanted = ()
        before = self._wanted, self._moving
        self._wanted, self._moving = wanted, moving
        return (wanted, moving) != before

    @property
    def number(self) -> int:
        """The number of peers, this node included."""
        return len(self._set or ())

    @property
    def has_others(self) -> bool:
        """Whether packets can be handed on to another node."""
        return len(self._present) > 1

    def forget(self) -> None:
        """Set the peers again in the next pass."""
        self._set = None

    def refresh(self) -> None:
        """Set the wanted peers once they are known, and seek UDP flows while
        flows are being moved."""
        wanted = self._wanted
        if wanted is not None and wanted != self._set:
            self._apply(wanted)
        if self._moving:
            self.seek_udp()

    def seek_udp(self) -> None:
        """Ask the peers for unknown UDP flows, which may move here now."""
        if self.has_others:
            self.seeking.extend()

    def _apply(self, wanted: tuple[str, ...]) -> None:
        problem = None
        try:
            if len(wanted) > 1 and list(wanted) != self._present:
                # Routers may not have converged on the new set of nodes.
                self.seeking.extend()
            self._datapath.set_nat_peers(wanted)
            self._set = wanted
            self._present = list(wanted)
            if wanted:
                self.wait.found(len(wanted))
        except datapath.DatapathError as error:
            if datapath.is_stale(error):
                raise
            # This may be transient, for example after a change of pools.
            problem = error.text
            if problem != self._problem:
                LOG.error('Packets of NAT are not handed on to %s: %s',
                          ', '.join(wanted), problem)
        self._problem = problem
