# SPDX-License-Identifier: Apache-2.0
"""Which VIPs a node may announce now, and how."""

import ipaddress
from typing import Any

from octavia_xdp_provider.agent import announcing as agent_announcing
from octavia_xdp_provider.agent import nat_services as agent_nat_services
from octavia_xdp_provider.agent import recheck as agent_recheck
from octavia_xdp_provider.agent import services as agent_services
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process.agents.wanted import Wanted


class Eligible:
    """Selects VIPs by the tables; for the worker's thread.

    :param recheck: None: members need not have been probed.
    """

    def __init__(self, services: agent_services.Services,
                 nat_services: agent_nat_services.NatServices,
                 recheck: agent_recheck.Recheck | None) -> None:
        self._services = services
        self._nat_services = nat_services
        self._recheck = recheck
        # VIPs by the controller's marks; None: not known yet.
        self._draining: frozenset[str] | None = None
        self._withdrawn: frozenset[str] = frozenset()

    def want(self, wanted: Wanted) -> None:
        """Take the marks of load balancers."""
        self._draining, self._withdrawn = (
            frozenset().union(*(vips(wanted.documents[key][1]) or ()
                                for key in ids))
            for ids in (wanted.draining, wanted.withdrawn))

    def announce(self, announcing: agent_announcing.Announcing,
                 held: dict[str, Any], ready: frozenset[int]) -> None:
        """Announce the VIPs that have a service with a member that takes
        traffic, and no others.

        :param held: by VIP that is announced.
        :param ready: see Announcing.announce.
        """
        draining = self._draining
        if draining is None:
            # Keep what was announced before a restart.
            draining, staying = frozenset(), frozenset(held)
        else:
            staying = self._nat_services.waiting_to_leave(
                held, draining | self._withdrawn)
        announcing.announce(self._able(held, self._withdrawn - staying),
                            ready, draining, staying)

    def _able(self, held: dict[str, Any], withdrawn: frozenset[str]
              ) -> dict[str, set[frozenset[int]]]:
        """Return VIP → families of the services that can take packets."""
        waiting = self._nat_services.waiting_for_peers(held)
        able: dict[str, set[frozenset[int]]] = {}
        if self._recheck:
            self._recheck.begin(self._services.is_any_planned)
        for key, summary in self._services.tables.services.items():
            if (summary.enabled
                    and key not in self._services.leaving
                    and key not in waiting and key.address not in withdrawn
                    and self._is_allowed(key, key.address in held)):
                able.setdefault(key.address, set()).add(
                    self._services.families(key))
        if self._recheck:
            self._recheck.end()
        return able

    def _is_allowed(self, key: datapath.Key, held: bool) -> bool:
        """Return whether the service's VIP passes ``recheck``."""
        recheck = self._recheck
        if not recheck or recheck.allows_all or (
                not self._services.is_planned(key)):
            return True
        return recheck.allows(key.address, held, self._services.families(key),
                              self._services.check_keys(key.address))


def vips(document: Any) -> set[str] | None:
    """Return the VIPs of a document that may be malformed, in the form that
    keys of services have, or None."""
    try:
        return {str(ipaddress.ip_address(str(address))) for address in (
            document['vip_address'], *(
                vip['ip_address']
                for vip in document.get('additional_vips') or ()))}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
