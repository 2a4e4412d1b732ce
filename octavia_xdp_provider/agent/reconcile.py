# SPDX-License-Identifier: Apache-2.0
"""One pass of the node: make datapath, checks and announcements as wanted.

The order matters: a service must exist before the fabric sends packets for
it, and the fabric must have stopped before the service is deleted.

0. Set the pools of NAT, which services refer to, and the peers that packets
   of unknown flows are handed on to, those of UDP only while flows are being
   moved (see ``seeking``).
1. Withdraw VIPs that are no longer wanted, and wait until ExaBGP has done so.
   Their services stay for ``[agent] withdraw_grace``, and the reports of
   their load balancers do not change meanwhile.
2. Set the services (a table is switched by a single store, see the library),
   and notify the result handler, which has health that new tables lack.
3. Set the marks of probes through the datapath, if any, and write the checks
   files: the wanted checks, and those of services that are left unchanged.
4. Delete services that are not wanted.
5. Announce every VIP with at least one member that takes traffic, if packets
   to its members can leave by an uplink, its members have been probed since
   an uplink works (see ``recheck``), and the controller does not want it
   withdrawn. VIPs with NAT also wait until all peers of step 0 have their
   lists; drains and withdrawals of VIPs with UDP flows by NAT wait until the
   peers seek these flows (see ``peers_wait``).

If a file cannot be written, because its file system is full for example, the
other steps still run, except that a VIP that cannot be withdrawn keeps its
services. All load balancers are then reported with that error and without
states of members, because this node does not do what is wanted.

The cost of a pass depends on the changes: only changed documents are planned
again, and only services with a changed plan, or changed by another process,
are set again. In addition each pass sets a part of all services again, so
that all of them are compared every few minutes.
"""

from collections.abc import Callable
import dataclasses
import typing

from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.agent import announcing
from octavia_xdp_provider.agent import checks_writer
from octavia_xdp_provider.agent import eligible
from octavia_xdp_provider.agent import facts
from octavia_xdp_provider.agent import files as agent_files
from octavia_xdp_provider.agent import history
from octavia_xdp_provider.agent import nat_services
from octavia_xdp_provider.agent import plans as agent_plans
from octavia_xdp_provider.agent import recheck as agent_recheck
from octavia_xdp_provider.agent import services
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.process.agents.wanted import Entry
from octavia_xdp_provider.process.agents.wanted import Wanted
from octavia_xdp_provider.process.agents.worker import PassResult

LOG = logging.getLogger(__name__)

@dataclasses.dataclass
class _Pass:
    """What later passes need of the last one.

    ``entries``: id → (generation, document). ``failed``: id → why it is not
    as wanted. ``without_vip``: ids whose documents name no address.
    ``changed``: ids whose plans have changed or are gone; kept if a pass
    fails, for the next one to process.
    """

    entries: typing.Mapping[str, Entry] = dataclasses.field(
        default_factory=dict)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    without_vip: set[str] = dataclasses.field(default_factory=set)
    changed: set[str] = dataclasses.field(default_factory=set)


class Reconciler:
    """Applies the wanted state; for the worker's thread unless noted.

    All state kept here only serves to detect changes, and can be rebuilt.

    :param inputs: of plans, besides documents.
    :param without_history: see history.History.
    :ivar facts: facts.Facts, as of the last pass or ``announce``.
    :ivar file_errors: files.FileErrors.
    :ivar history: history.History.
    """

    def __init__(self, conf: cfg.ConfigOpts,
                 files: run_directory.RunDirectory,
                 dataplane: datapath.Datapath,
                 announce: announcements.Announcements,
                 inputs: agent_plans.Inputs,
                 recheck: agent_recheck.Recheck | None = None,
                 without_history: Callable[[], None] = lambda: None) -> None:
        self._announce = announce
        self._nat = nat = inputs.nat
        self.file_errors = agent_files.FileErrors()
        self._plans = agent_plans.Plans(conf, inputs)
        self._services = services.Services(
            dataplane, self._plans, conf.datapath.slots, files.handler_wakeup)
        tables = self._services.tables
        self.history = history.History(dataplane, tables, self._plans,
                                       without_history)
        self.facts = facts.Facts(self._plans, tables, self.history.of)
        self._checks = checks_writer.ChecksWriter(
            files, self._plans, inputs.probes, self.file_errors)
        self._nat_services = nat_services.NatServices(nat)
        self._eligible = eligible.Eligible(self._services, self._nat_services,
                                           recheck)
        self._announcing = announcing.Announcing(
            announce, self.file_errors, conf,
            (lambda: nat.pools) if nat else tuple, self._nat_services.moves)
        self._last = _Pass()

    def reconcile(self, wanted: Wanted, ready: frozenset[int]) -> PassResult:
        """Run a whole pass.

        A load balancer that cannot be set up is reported with its error and
        keeps its services, routes and checks. The others are not affected.

        :param ready: see ``announce``.
        :raises DatapathError: the datapath cannot be reached at all.
        """
        owners = {**self._services.leaving, **self._services.owners}
        if self._nat:
            self._nat.refresh()
        self._plan(wanted.documents)
        if self._nat:
            self._nat.peers.refresh()
        self._eligible.want(wanted)
        self._services.read()
        failed = dict(self._plans.failed)
        stale = self._withdraw(failed)
        refused = self._set_services(failed)
        self._checks.write(
            self._last.changed, self._services.checks_kept(stale, refused),
            {self._services.owners[key] for key in refused})
        self._services.delete(stale, owners, self._announcing.leaving)
        changed, self._last.changed = self._last.changed, set()
        self._announce_tables(ready)
        for error in self.file_errors.values():
            for key in wanted.documents:
                failed.setdefault(key, error)
        if self._nat and self._nat.problem:
            for key in self._plans.of_nat():
                failed.setdefault(key, self._nat.problem)
        self._last.failed = failed
        self._update_facts()
        self.facts.as_of = wanted.as_of
        return PassResult(wanted, failed, len(changed))

    def leaving_s(self) -> float | None:
        """Return the seconds until a pass has to delete services of withdrawn
        VIPs, or None."""
        return self._announcing.leaving_s()

    def announce(self, ready: frozenset[int]) -> None:
        """Announce exactly the VIPs with a member that takes traffic.

        :param ready: families of outer packets (4, 6) that can be forwarded.
            Announcements that need other families can only be removed. Before
            the wanted state is known, pass an empty set.
        """
        if self._nat:
            self._nat.peers.refresh()
        self._services.read()
        self._announce_tables(ready)
        self._update_facts()

    @property
    def held(self) -> dict[str, messages.Held]:
        """As of the last pass or ``announce``."""
        return self.facts.held

    @property
    def problems(self) -> list[str]:
        """Problems that affect the whole node."""
        return sorted(self.file_errors.values())

    def members(self) -> dict[str, dict[str, messages.MemberState]]:
        """Read the states of all monitored members from the datapath.

        :returns: load balancer id → {member id: "up" | "down" | "unknown"}.
        """
        self._services.read()
        self._update_facts()
        return {key: fact['members'] for key, fact in self.held.items()
                if key in self._plans.plans}

    def _plan(self, load_balancers: typing.Mapping[str, Entry]) -> None:
        self._last.entries = load_balancers
        changes = self._plans.update(load_balancers)
        self._last.changed |= changes.planned | changes.gone
        self._services.touched |= changes.looked
        self.history.forget(changes.gone)
        settings = self._services.plan(changes.planned)
        if changes.planned or changes.gone:
            self._nat_services.update(settings, self._services.owners.keys())

    def _withdraw(self, failed: dict[str, str]) -> list[datapath.Key]:
        """Withdraw VIPs that are not wanted; return the keys of services that
        are not wanted either."""
        owners = self._services.owners
        kept = self._vips_of_failed(failed)
        kept |= self._announcing.withdraw(
            {key.address for key in owners} | kept)
        return [key for key in self._services.tables.services
                if key not in owners and key.address not in kept]

    def _vips_of_failed(self, failed: dict[str, str]) -> set[str]:
        """Return the VIPs of failed load balancers, which must not change;
        all VIPs of the node if one of the documents names no address."""
        vips = {key: eligible.vips(self._last.entries[key][1])
                for key in failed}
        without = {key for key, addresses in vips.items()
                   if addresses is None}
        for key in sorted(without - self._last.without_vip):
            LOG.error('The document of load balancer %s names no address '
                      '(%s). No service is removed from this node until the '
                      'controller sends one that does.', key, failed[key])
        self._last.without_vip = without
        named: set[str] = set().union(
            *(addresses or () for addresses in vips.values()))
        if without:
            return named | {key.address
                            for key in self._services.tables.services}
        return named

    def _set_services(self, failed: dict[str, str]) -> set[datapath.Key]:
        """Set services; return the keys of those that were refused."""
        refused = self._services.apply(self._last.changed)
        for key, error in refused.items():
            owner = self._services.owners[key]
            text = f'{key.protocol} {key.address}:{key.port}: {error}'
            if self._last.failed.get(owner) != text:
                LOG.error('Service %s', text)
            failed[owner] = text
        return set(refused)

    def _announce_tables(self, ready: frozenset[int]) -> None:
        # Other nodes' history must precede new announcements.
        if self.history.apply():
            self._services.read()
        self._eligible.announce(self._announcing,
                                self._announce.wanted_addresses(), ready)

    def _update_facts(self) -> None:
        self.history.look(self._services.touched)
        status = self._announce.status()
        self.facts.update(
            self._last.entries, self._services.touched, self._last.failed,
            frozenset() if status is None or not status.sessions_up
            else status.addresses, set(self._services.leaving.values()))
        self._services.touched = set()
