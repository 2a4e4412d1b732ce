# SPDX-License-Identifier: Apache-2.0
"""One pass of the node: make datapath, checks and announcements as wanted.

The order is the contract: packets must find a service before the fabric
sends them, and the fabric must have stopped before a service goes.

1. withdraw VIPs that are no longer wanted, and wait until ExaBGP has;
2. set the services (a table switches by one store, see the library), and
   notify the result handler, which knows more than new tables do;
3. set the marks of probes that go through the datapath, where there are
   any, and write the checks file: what is wanted, and what the services
   that stay as they are go on looking at;
4. delete services that are not wanted;
5. announce every VIP with at least one member that takes traffic, if packets
   to its members leave by an uplink.

A file that cannot be written, because its file system is full, for example,
keeps the other steps from nothing, but for this: a VIP that cannot be
withdrawn keeps its services. All load balancers are then reported with that
error, and the state of no member: this node does not do what is wanted.
"""

import dataclasses
import ipaddress
import time

from oslo_log import log as logging

from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp.route import Route
from octavia_xdp_provider.common import checks_file
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import wakeup

LOG = logging.getLogger(__name__)

# Seconds to wait for ExaBGP to take a withdrawal before services go anyway:
# if it does not answer, its sessions and with them the routes are gone.
WITHDRAW_TIMEOUT = 3.0

_FAMILIES = frozenset((4, 6))


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What the controller wants of this node.

    ``load_balancers``: id → (generation, document).
    """

    as_of: int
    load_balancers: dict


@dataclasses.dataclass(frozen=True)
class PassResult:
    """What a pass has made true; ``synced`` as in messages.Report."""

    wanted: Wanted
    synced: dict
    plans: dict


class Reconciler:
    """Holds nothing but access to the three things it reconciles.

    :ivar file_errors: what is not written as wanted → why not.
    """

    def __init__(self, conf, files, dataplane, announce, policy,
                 path_mtu=None, probes=None):
        self._files = files
        self._datapath = dataplane
        self._announce = announce
        self._policy = policy
        self._path_mtu = path_mtu
        self._probes = probes
        self._slots = conf.datapath.slots
        self._next_hop_v6 = conf.agent.next_hop_v6
        self._families = {}  # key → families of its members
        self._scope = conf.agent.health_scope
        self._panic_percent = conf.agent.health_panic_percent
        self._grace = conf.agent.withdraw_grace
        self._without_vip = set()  # ids whose documents name no address
        self.file_errors = {}

    def reconcile(self, wanted, ready):
        """One pass over everything.

        A load balancer that cannot be done is reported with its error and
        keeps what it has: services, routes and checks. The others go on.

        :param ready: families of outer packets that can be sent on; see
            ``announce``.
        :raises DatapathError: the datapath cannot be reached at all.
        """
        plans, failed = self._plan(wanted)
        vips_kept = self._vips_of_failed(wanted, failed)
        vips_kept |= self._withdraw({plan.vip for plan in plans.values()
                                     if plan.services} | vips_kept)
        stale = self._stale(plans, vips_kept)
        unset = self._set_services(plans, failed)
        self._write_checks(plans, self._checks_kept(plans, stale, unset))
        if stale:
            self._datapath.delete_services(stale)
            for key in stale:
                self._families.pop(key, None)
        self.announce(ready)
        for error in self.file_errors.values():
            for key in wanted.load_balancers:
                failed.setdefault(key, error)
        synced = {key: {'generation': generation, 'error': failed.get(key)}
                  for key, (generation, _) in wanted.load_balancers.items()}
        return PassResult(wanted, synced, plans)

    def _plan(self, wanted):
        plans, failed = {}, {}
        policy = self._policy()
        if self._path_mtu:
            self._path_mtu.refresh()
        if self._probes:
            self._probes.begin()
        for key, (_, document) in wanted.load_balancers.items():
            try:
                plan = forwarding.plan(
                    document, policy, self._path_mtu and self._path_mtu.of,
                    self._scope, self._probes and self._probes.mark)
                # The health checker refuses a file as a whole: one bad check
                # would freeze the checks of all load balancers.
                checks_file.build_document(plan.checks, plan.conditions)
            except errors.Refused as error:
                failed[key] = str(error)
            except checks_file.ChecksFileError as error:
                failed[key] = f'health monitor: {error}'
            else:
                plans[key] = plan
        for plan in plans.values():
            self._families.update(
                (key, service.families)
                for key, service in plan.services.items())
        return plans, failed

    def _vips_of_failed(self, wanted, failed):
        """VIPs that stay as they are, since what is wanted of them cannot
        be done. All there are if a document does not say which it is of."""
        vips = {key: _vip(wanted.load_balancers[key][1]) for key in failed}
        without = {key for key, vip in vips.items() if vip is None}
        for key in sorted(without - self._without_vip):
            LOG.error('The document of load balancer %s names no address '
                      '(%s). No service is removed from this node until the '
                      'controller sends one that does.', key, failed[key])
        self._without_vip = without
        if without:
            return {service.key.address
                    for service in self._datapath.services()} | (
                        set(vips.values()) - {None})
        return set(vips.values())

    def _stale(self, plans, vips_kept):
        wanted = {key for plan in plans.values() for key in plan.services}
        return [service.key for service in self._datapath.services()
                if service.key not in wanted
                and service.key.address not in vips_kept]

    def _write(self, what, write):
        """Call a function that writes a file.

        :returns: what it returns; None if the file cannot be written.
        """
        try:
            written = write()
        except OSError as error:
            text = f'{what} cannot be written: {error.strerror or error}'
            if self.file_errors.get(what) != text:
                LOG.error('The file of the %s.', text)
            self.file_errors[what] = text
            return None
        if self.file_errors.pop(what, None):
            LOG.info('The file of the %s can be written again.', what)
        return written

    def _withdraw(self, vips):
        """Withdraw every VIP that is not one of these.

        :returns: those that could not be, as texts.
        """
        before = self._announce.wanted()
        after = {prefix: route for prefix, route in before.items()
                 if str(prefix.network_address) in vips}
        gone = before.keys() - after.keys()
        if not gone:
            return set()
        if self._write('announcements', lambda: (
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
        time.sleep(self._grace)
        return set()

    def _set_services(self, plans, failed):
        """Returns keys of services that could not be set as wanted."""
        wanted, owners = {}, {}
        for load_balancer_id, plan in plans.items():
            for key, service in plan.services.items():
                wanted[key] = (service.settings._replace(slots=self._slots),
                               service.members)
                owners[key] = load_balancer_id
        changed, refused = self._datapath.set_services(wanted)
        for key in sorted(changed):
            LOG.info('Service %s %s:%s has %s members.', key.protocol,
                     key.address, key.port, len(wanted[key][1]))
        for key, error in refused.items():
            name = f'{key.protocol} {key.address}:{key.port}'
            LOG.error('Service %s: %s', name, error.text)
            failed[owners[key]] = f'{name}: {error.text}'
        if changed:
            wakeup.notify(self._files.handler_wakeup)
        return refused.keys()

    def _checks_kept(self, plans, stale, unset):
        """What services that stay as they are look at, in the checks file.

        The tables name the checks and the file holds them, so that an agent
        that was started after the last good plan keeps them as well.

        :returns: a part of the file; see ``checks_file.select``.
        """
        planned = {key for plan in plans.values() for key in plan.services}
        staying = {service.key for service in self._datapath.services()}
        staying -= planned.difference(unset).union(stale)
        names = frozenset(f'{member.check:016x}' for key in staying
                          for member in self._members(key) if member.check)
        if not names:
            return {}
        try:
            return checks_file.select(
                checks_file.load(self._files.checks), names)
        except (OSError, checks_file.ChecksFileError) as error:
            LOG.error('Members of services that stay as they are are no '
                      'longer probed: %s cannot be used (%s).',
                      self._files.checks, error)
            return {}

    def _write_checks(self, plans, kept):
        checks, conditions, groups = [], [], []
        for plan in plans.values():
            checks += plan.checks
            conditions += plan.conditions
            if self._panic_percent:
                groups += [checks_file.Group(pool_id, frozenset(keys),
                                             self._panic_percent)
                           for pool_id, keys in plan.pools.items()]
        if self._probes:
            self._probes.set()
        written = self._write('checks', lambda: checks_file.write(
            self._files.checks, checks, conditions=conditions,
            groups=groups, kept=kept))
        if written:
            LOG.info('Checks file written with %s checks, and %s of services '
                     'that stay as they are.', len(checks),
                     len(kept.get('checks', ())))
        if self._probes and written is not None:
            marks = {check.mark for check in checks}
            marks.update(check.get('mark') for check in kept.get('checks', ()))
            self._probes.written(marks - {None})

    def announce(self, ready):
        """Announce every VIP with a member that takes traffic, no other.

        :param ready: families (4, 6) of outer packets that can be sent on.
            What needs another one, or everything while it is not known what
            is wanted and the set is empty, may only become less.
        """
        held = set(map(str, self._announce.wanted()))
        able = set()
        for service in self._datapath.services():
            if service.enabled:
                prefix = _prefix(service.key.address)
                needed = self._families.get(service.key, _FAMILIES)
                if prefix in held or needed <= ready:
                    able.add(prefix)
        routes = []
        for prefix in sorted(able):
            try:
                self._announce.check(prefix)
            except announcements.AnnouncementError as error:
                LOG.error('Not announced: %s', error)
            else:
                routes.append(Route.parse(prefix, self._next_hop(prefix)))
        if self._write('announcements',
                       lambda: self._announce.set(routes)):
            LOG.info('Announcing %s.', ', '.join(
                str(route.prefix) for route in routes) or 'nothing')

    def _next_hop(self, prefix):
        return self._next_hop_v6 if ':' in prefix else None

    def members(self, result):
        """What the datapath says of every monitored member.

        :returns: load balancer id → {member id: "up" | "down" | "unknown"}.
        :raises DatapathError: the datapath cannot be reached at all.
        """
        states = {}
        found = {}
        for load_balancer_id, plan in result.plans.items():
            mine = found.setdefault(load_balancer_id, {})
            for member_id, (key, address) in plan.monitored.items():
                if key not in states:
                    states[key] = {
                        member.address: member
                        for member in self._members(key)}
                mine[member_id] = _state(states[key].get(address))
        return found

    def counters(self, result):
        """What each listener has taken since its service was created.

        :returns: load balancer id → {listener id: {"bytes", "flows"}}.
        """
        by_key = {service.key: service.counters
                  for service in self._datapath.services()}
        return {
            load_balancer_id: {
                listener_id: {'bytes': by_key[key].bytes,
                              'flows': by_key[key].flows}
                for listener_id, key in plan.listeners.items()
                if key in by_key}
            for load_balancer_id, plan in result.plans.items()}

    def _members(self, key):
        try:
            return self._datapath.members(key)
        except datapath.DatapathError:
            return []


def _prefix(address):
    """The route to an address alone."""
    return str(ipaddress.ip_network(address))


def _vip(document):
    """The VIP of a malformed document as services are named, or None."""
    address = document.get('vip_address') if isinstance(
        document, dict) else None
    try:
        # A number would be taken for an address, too.
        return str(ipaddress.ip_address(str(address)))
    except ValueError:
        return None


def _state(member):
    if member is None or not member.known:
        return 'unknown'
    return 'up' if member.healthy else 'down'
