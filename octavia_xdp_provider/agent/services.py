# SPDX-License-Identifier: Apache-2.0
"""Steps 2 and 4 of a pass: set the planned services, delete the others.

All state kept here only serves to detect changes, and can be rebuilt.
"""

from collections.abc import Iterator

from oslo_log import log as logging

from octavia_xdp_provider.agent import plans as agent_plans
from octavia_xdp_provider.agent import tables as agent_tables
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import wakeup

LOG = logging.getLogger(__name__)

# Families assumed for outer packets of a service without a plan.
_FAMILIES = frozenset((4, 6))
# Number of passes in which every service is set again.
COMPARE_PASSES = 30

Versions = tuple[int, int, int]


class Services:
    """The services of this node, for the worker's thread.

    :param slots: [datapath] slots.
    :param handler_wakeup: socket of the result handler, which has health
        that new tables lack.
    :ivar tables: tables.Tables.
    :ivar owners: key of a planned service → id of its load balancer.
    :ivar leaving: the same of services of withdrawn VIPs, which stay for a
        while.
    :ivar touched: ids of load balancers whose reports may change. Kept if a
        pass fails, for the next one to process.
    """

    def __init__(self, dataplane: datapath.Datapath, plans: agent_plans.Plans,
                 slots: int, handler_wakeup: str) -> None:
        self._datapath = dataplane
        self._plans = plans
        self._slots = slots
        self._handler_wakeup = handler_wakeup
        self.tables = agent_tables.Tables(dataplane)
        self.owners: dict[datapath.Key, str] = {}
        self.leaving: dict[datapath.Key, str] = {}
        self.touched: set[str] = set()
        self._families: dict[datapath.Key, frozenset[int]] = {}
        self._check_keys: dict[str, frozenset[str]] = {}  # by VIP
        # key → version of the table that was set
        self._settled: dict[datapath.Key, Versions | None] = {}
        self._passes = 0

    def plan(self, planned: set[str]
             ) -> dict[datapath.Key, datapath.Settings]:
        """Take new plans of these load balancers; return the settings of
        their services."""
        self.owners = {key: load_balancer_id for load_balancer_id, plan
                       in self._plans.plans.items() for key in plan.services}
        settings = {}
        for load_balancer_id in planned:
            plan = self._plans.plans.get(load_balancer_id)
            if plan is None:
                continue
            for key, service in plan.services.items():
                self._families[key] = service.families(key.address)
                settings[key] = service.settings
                self._check_keys[key.address] = plan.check_keys
        return settings

    def read(self) -> None:
        """Read the tables again, and note which services have changed."""
        look = self.tables.look()
        for key in look.gone:
            self._settled.pop(key, None)
            if key not in self.owners:
                self._families.pop(key, None)
        self.touched |= {self.owners[key] for key in look.changed | look.gone
                         if key in self.owners}

    def apply(self, changed: set[str]) -> dict[datapath.Key, str]:
        """Set the services that are due; return key → error of those that
        were refused.

        :param changed: ids of load balancers whose plans have changed.
        """
        wanted = {}
        for key, owner in self._due(changed):
            service = self._plans.plans[owner].services[key]
            wanted[key] = (service.settings._replace(slots=self._slots),
                           service.members)
        switched, refused = self._datapath.set_services(wanted)
        self._passes += 1
        for key in sorted(switched):
            LOG.info('Service %s %s:%s has %s members.', key.protocol,
                     key.address, key.port, len(wanted[key][1]))
        if switched:
            wakeup.notify(self._handler_wakeup)
        if switched or refused:
            self.read()
        for key in wanted:
            summary = self.tables.services.get(key)
            # A refused service is due again in the next pass.
            self._settled[key] = (None if key in refused or summary is None
                                  else summary.version)
        return {key: error.text for key, error in refused.items()}

    def _due(self, changed: set[str]) -> Iterator[tuple[datapath.Key, str]]:
        """Yield (key, load balancer id) of services that are to be set."""
        part = self._passes % COMPARE_PASSES
        for number, (key, owner) in enumerate(self.owners.items()):
            summary = self.tables.services.get(key)
            if (owner in changed or summary is None
                    or self._settled.get(key) != summary.version
                    or number % COMPARE_PASSES == part):
                yield key, owner

    def delete(self, stale: list[datapath.Key],
               owners: dict[datapath.Key, str],
               withdrawn: set[str]) -> None:
        """Delete stale services, unless packets for them may still arrive.

        :param owners: of all services of the pass before.
        :param withdrawn: VIPs to which packets may still arrive.
        """
        before = set(self.leaving.values())
        self.leaving = {key: owners.get(key, '') for key in stale
                        if key.address in withdrawn}
        self.touched |= before - set(self.leaving.values())
        gone = [key for key in stale if key not in self.leaving]
        if gone:
            self._datapath.delete_services(gone)
            self.read()

    def checks_kept(self, stale: list[datapath.Key],
                    refused: set[datapath.Key]) -> frozenset[str]:
        """Return the keys of checks of services left unchanged."""
        staying = self.tables.services.keys() - stale
        staying -= self.owners.keys() - refused
        return frozenset(
            f'{member.check:016x}' for key in staying
            for member in self.tables.members(key).values() if member.check)

    @property
    def is_any_planned(self) -> bool:
        return bool(self._families)

    def is_planned(self, key: datapath.Key) -> bool:
        return key in self._families

    def families(self, key: datapath.Key) -> frozenset[int]:
        """Return the families of a service's outer packets."""
        return self._families.get(key, _FAMILIES)

    def check_keys(self, vip: str) -> frozenset[str]:
        """Return the keys of the checks of a VIP's members."""
        return self._check_keys.get(vip, frozenset())
