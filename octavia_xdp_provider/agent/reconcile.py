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

import ipaddress
import typing

from oslo_log import log as logging

from octavia_xdp_provider.agent import announcing
from octavia_xdp_provider.agent import checks_file
from octavia_xdp_provider.agent import checks_writer
from octavia_xdp_provider.agent import facts
from octavia_xdp_provider.agent import files as agent_files
from octavia_xdp_provider.agent import history
from octavia_xdp_provider.agent import nat_services
from octavia_xdp_provider.agent import plans as agent_plans
from octavia_xdp_provider.agent import tables
from octavia_xdp_provider.node import wakeup
from octavia_xdp_provider.process.wanted import Wanted

LOG = logging.getLogger(__name__)

__all__ = ['PassResult', 'Reconciler', 'Wanted']

# Families assumed for outer packets of a service without a plan.
_FAMILIES = frozenset((4, 6))
# Number of passes in which every service is set again.
COMPARE_PASSES = 30


class PassResult(typing.NamedTuple):
    """The result of a pass.

    ``failed``: id → why it is not as wanted. ``changed``: how many load
    balancers have changed plans since the pass before.
    """

    wanted: Wanted
    failed: dict
    changed: int = 0

    @property
    def synced(self):
        """id → {'generation': …, 'error': …}."""
        return {key: {'generation': generation,
                      'error': self.failed.get(key)}
                for key, (generation, _)
                in self.wanted.documents.items()}


class Reconciler:
    """Applies the wanted state; for the worker's thread unless noted.

    All state kept here only serves to detect changes, and can be rebuilt.

    :param without_history: see history.History.
    :ivar file_errors: files.FileErrors.
    :ivar given_history: see history.History.given.
    """

    def __init__(self, conf, files, dataplane, announce, policy,
                 path_mtu=None, probes=None, recheck=None,
                 keys=checks_file.UNKEYED, nat=None,
                 without_history=lambda: None):
        self._files = files
        self._datapath = dataplane
        self._announce = announce
        self._recheck = recheck
        self._slots = conf.datapath.slots
        self.file_errors = agent_files.FileErrors()
        self._plans = agent_plans.Plans(
            conf.agent.health_scope, conf.agent.health_panic_percent,
            lambda: self._policy(), path_mtu, probes, keys, nat, conf.host)
        self._nat = nat
        self._policy = policy
        self._tables = tables.Tables(dataplane)
        self._history = history.History(dataplane, self._tables, self._plans,
                                        without_history)
        self.given_history = self._history.given
        self._facts = facts.Facts(self._plans, self._tables, self._history.of)
        self._checks = checks_writer.ChecksWriter(
            files, self._plans, probes, self.file_errors)
        self._nat_services = nat_services.NatServices(nat)
        self._announcing = announcing.Announcing(
            announce, self.file_errors, conf,
            (lambda: nat.pools) if nat else tuple, self._nat_services.moves)
        self._draining = None  # VIPs; None: not known yet
        self._withdrawn = frozenset()  # VIPs
        self._without_vip = set()  # ids whose documents name no address
        self._owners = {}    # key of a planned service → load balancer id
        self._leaving = {}   # key of a withdrawn service → the same
        self._families = {}  # key → families of its outer packets
        self._check_keys = {}  # VIP → keys of its members' checks
        self._settled = {}   # key → version of the table that was set
        self._passes = 0
        self._as_of = 0  # generation of the fetch that tables reflect
        self._entries = {}
        self._failed = {}
        # These are kept if a pass fails, for the next one to process:
        self._changed = set()  # ids whose plans have changed or are gone
        self._touched = set()  # ids whose reports may change

    def reconcile(self, wanted, ready):
        """Run a whole pass.

        A load balancer that cannot be set up is reported with its error and
        keeps its services, routes and checks. The others are not affected.

        :param ready: see ``announce``.
        :raises DatapathError: the datapath cannot be reached at all.
        """
        before = {**self._leaving, **self._owners}
        if self._nat:
            self._nat.refresh()
        self._plan(wanted.documents)
        if self._nat:
            self._nat.refresh_peers()
        self._draining, self._withdrawn = (
            frozenset().union(*(_vips(wanted.documents[key][1]) or ()
                                for key in ids))
            for ids in (wanted.draining, wanted.withdrawn))
        self._read_tables()
        failed = dict(self._plans.failed)
        vips = {key.address for key in self._owners}
        vips_kept = self._vips_of_failed(failed)
        vips_kept |= self._announcing.withdraw(vips | vips_kept)
        stale = [key for key in self._tables.services
                 if key not in self._owners and key.address not in vips_kept]
        refused = self._set_services(failed)
        self._checks.write(self._changed, self._checks_kept(stale, refused),
                           {self._owners[key] for key in refused})
        self._remove(stale, before)
        changed, self._changed = self._changed, set()
        self._apply_history()
        self._announce_tables(ready)
        for error in self.file_errors.values():
            for key in wanted.documents:
                failed.setdefault(key, error)
        if self._nat and self._nat.problem:
            for key in self._plans.of_nat():
                failed.setdefault(key, self._nat.problem)
        self._failed = failed
        self._update_facts()
        self._passes += 1
        self._as_of = wanted.as_of
        return PassResult(wanted, failed, len(changed))

    def _remove(self, stale, before):
        """Delete stale services, unless packets for them may still arrive.

        :param before: key of a service → id of its load balancer.
        """
        withdrawn = self._announcing.leaving
        ids = set(self._leaving.values())
        self._leaving = {key: before.get(key) for key in stale
                         if key.address in withdrawn}
        self._touched |= ids - set(self._leaving.values())
        gone = [key for key in stale if key not in self._leaving]
        if gone:
            self._datapath.delete_services(gone)
            self._read_tables()

    def leaving_s(self):
        """Return the seconds until a pass has to delete services of withdrawn
        VIPs, or None."""
        return self._announcing.leaving_s()

    def announce(self, ready):
        """Announce exactly the VIPs with a member that takes traffic.

        :param ready: families of outer packets (4, 6) that can be forwarded.
            Announcements that need other families can only be removed. Before
            the wanted state is known, pass an empty set.
        """
        if self._nat:
            self._nat.refresh_peers()
        self._read_tables()
        self._apply_history()
        self._announce_tables(ready)
        self._update_facts()

    @property
    def held(self):
        """id → messages.Held, as of the last pass or ``announce``."""
        return self._facts.held

    def counters(self):
        """See facts.Facts."""
        return self._facts.counters()

    def traffic(self):
        """See facts.Facts."""
        return self._facts.traffic()

    def total(self):
        """See facts.Facts."""
        return self._facts.total()

    def nat_state(self):
        """Return messages.NatState or None. For any thread."""
        return self._nat and self._nat.report(self._facts.nat_flows())

    @property
    def problems(self):
        """Problems that affect the whole node, a list of str."""
        return sorted(self.file_errors.values())

    def open_slots(self):
        """Return messages.OpenSlots. For any thread."""
        as_of = self._as_of  # read first, so that the tables are no older
        return {**self._facts.open_slots(), 'as_of': as_of}

    def active_flows(self):
        """See facts.Facts."""
        return self._facts.active_flows()

    def members(self):
        """Read the states of all monitored members from the datapath.

        :returns: load balancer id → {member id: "up" | "down" | "unknown"}.
        """
        self._read_tables()
        self._update_facts()
        return {key: fact['members'] for key, fact in self.held.items()
                if key in self._plans.plans}

    def _plan(self, load_balancers):
        self._entries = load_balancers
        changes = self._plans.update(load_balancers)
        self._changed |= changes.planned | changes.gone
        self._touched |= changes.looked
        self._history.forget(changes.gone)
        self._owners = {key: load_balancer_id for load_balancer_id, plan
                        in self._plans.plans.items() for key in plan.services}
        planned = {}
        for load_balancer_id in changes.planned:
            plan = self._plans.plans.get(load_balancer_id)
            for key, service in plan.services.items() if plan else ():
                self._families[key] = service.families(key.address)
                planned[key] = service.settings
                self._check_keys[key.address] = plan.check_keys
        if changes.planned or changes.gone:
            self._nat_services.update(planned, self._owners.keys())

    def _read_tables(self):
        """Read the tables again, and note which services have changed."""
        look = self._tables.look()
        for key in look.gone:
            self._settled.pop(key, None)
            if key not in self._owners:
                self._families.pop(key, None)
        self._touched |= {self._owners[key] for key in look.changed | look.gone
                          if key in self._owners}

    def _apply_history(self):
        """Apply other nodes' history; must precede new announcements."""
        if self._history.apply():
            self._read_tables()

    def _update_facts(self):
        self._history.look(self._touched)
        status = self._announce.status()
        self._facts.update(
            self._entries, self._touched, self._failed,
            frozenset() if status is None or not status.sessions_up
            else status.addresses, set(self._leaving.values()))
        self._touched = set()

    def _vips_of_failed(self, failed):
        """Return the VIPs of failed load balancers, which must not change;
        all VIPs of the node if one of the documents names no address."""
        vips = {key: _vips(self._entries[key][1]) for key in failed}
        without = {key for key, addresses in vips.items()
                   if addresses is None}
        for key in sorted(without - self._without_vip):
            LOG.error('The document of load balancer %s names no address '
                      '(%s). No service is removed from this node until the '
                      'controller sends one that does.', key, failed[key])
        self._without_vip = without
        named = set().union(*(addresses or () for addresses in vips.values()))
        if without:
            return named | {key.address for key in self._tables.services}
        return named

    def _due(self):
        """Yield (key, load balancer id) of services that are to be set."""
        services = self._tables.services
        part = self._passes % COMPARE_PASSES
        for number, (key, owner) in enumerate(self._owners.items()):
            summary = services.get(key)
            if (owner in self._changed or summary is None
                    or self._settled.get(key) != summary.version
                    or number % COMPARE_PASSES == part):
                yield key, owner

    def _set_services(self, failed):
        """Set services; return the keys of those that were refused."""
        wanted = {}
        for key, owner in self._due():
            service = self._plans.plans[owner].services[key]
            wanted[key] = (service.settings._replace(slots=self._slots),
                           service.members)
        changed, refused = self._datapath.set_services(wanted)
        for key in sorted(changed):
            LOG.info('Service %s %s:%s has %s members.', key.protocol,
                     key.address, key.port, len(wanted[key][1]))
        for key, error in refused.items():
            name = f'{key.protocol} {key.address}:{key.port}'
            owner = self._owners[key]
            if self._failed.get(owner) != f'{name}: {error.text}':
                LOG.error('Service %s: %s', name, error.text)
            failed[owner] = f'{name}: {error.text}'
        if changed:
            wakeup.notify(self._files.handler_wakeup)
        if changed or refused:
            self._read_tables()
        for key in wanted:
            summary = self._tables.services.get(key)
            # A refused service is due again in the next pass.
            self._settled[key] = (None if key in refused or summary is None
                                  else summary.version)
        return refused.keys()

    def _checks_kept(self, stale, unset):
        """Return the keys (str) of checks of services left unchanged."""
        staying = self._tables.services.keys() - stale
        staying -= self._owners.keys() - unset
        return frozenset(
            f'{member.check:016x}' for key in staying
            for member in self._tables.members(key).values() if member.check)

    def _announce_tables(self, ready):
        held = self._announce.wanted_addresses()
        waiting = self._nat_services.waiting_for_peers(held)
        draining = self._draining
        if draining is None:
            # Keep what was announced before a restart.
            draining, staying = frozenset(), frozenset(held)
        else:
            staying = self._nat_services.waiting_to_leave(
                held, draining | self._withdrawn)
        withdrawn = self._withdrawn - staying
        able, allows_all = {}, not self._recheck
        if self._recheck:
            self._recheck.begin(bool(self._families))
            allows_all = self._recheck.allows_all
        for key, summary in self._tables.services.items():
            if (summary.enabled
                    and key not in self._leaving and key not in waiting
                    and key.address not in withdrawn) and (
                    allows_all or self._allows(key, key.address in held)):
                able.setdefault(key.address, set()).add(
                    self._families.get(key, _FAMILIES))
        if self._recheck:
            self._recheck.end()
        self._announcing.announce(able, ready, draining, staying)

    def _allows(self, key, held):
        """Return whether the service's VIP passes ``recheck``."""
        if not self._recheck or key not in self._families:
            return True
        return self._recheck.allows(
            key.address, held, self._families[key],
            self._check_keys.get(key.address, frozenset()))


def _vips(document):
    """Return the VIPs of a document that may be malformed, in the form that
    keys of services have, or None."""
    try:
        return {str(ipaddress.ip_address(str(address))) for address in (
            document['vip_address'], *(
                vip['ip_address']
                for vip in document.get('additional_vips') or ()))}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
