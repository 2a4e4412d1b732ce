# SPDX-License-Identifier: Apache-2.0
"""The leader's work for members that are reached through hypervisors.

A step computes the wanted state from load balancers, Neutron's ports and the
hypervisors' reports, and stores its differences: documents of hypervisors
first, and tunnels in the documents of LB nodes once the hypervisor has
confirmed its document. It handles only load balancers that a change concerns.
All state in memory can be read again, as a new leader does.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Set
import dataclasses
import time

from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.api import validation
from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.neutron_ports import address_sets
from octavia_xdp_provider.controller.neutron_ports import client
from octavia_xdp_provider.controller.neutron_ports import errors as absence
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.neutron_ports import follower
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.store import hypervisors
from octavia_xdp_provider.controller.store import leases
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.controller.zero_touch import decision
from octavia_xdp_provider.controller.zero_touch import ends
from octavia_xdp_provider.controller.zero_touch import members as members_
from octavia_xdp_provider.controller.zero_touch import moves
from octavia_xdp_provider.controller.zero_touch import notified as notified_
from octavia_xdp_provider.controller.zero_touch import plan
from octavia_xdp_provider.controller.zero_touch import tokens
from octavia_xdp_provider.process import ages
from octavia_xdp_provider.process import loops

LOG = logging.getLogger(__name__)

# Seconds between two steps, unless the loop is woken.
INTERVAL_S = 1.0
# Seconds after which every load balancer is handled again.
_ALL_S = 300.0
_EXPIRE_S = 10.0
_REACHABLE = tuple(condition.value for condition in clusters.REACHABLE)


def loop(zero_touch: 'ZeroTouch', come_round: Callable[[], None] = lambda: None
         ) -> loops.Loop:
    """Return the loop that makes the steps of ``zero_touch``.

    :param come_round: see Loops.watch.
    """
    return loops.Loop(
        zero_touch.step, INTERVAL_S, 'Failed to handle members on '
        'hypervisors; trying again.', come_round, leases.LeaseLost)


class ZeroTouch:
    """Keeps the tunnels to members up to date. Not thread-safe."""

    def __init__(self, conf: cfg.ConfigOpts, store: queries.Store, lease: str,
                 token: Callable[[], int | None],
                 notify_hosts: Callable[[Set[str]], object],
                 notify_nodes: Callable[[Set[str]], object],
                 neutron: client.Neutron | None = None,
                 notified: notified_.Notified | None = None,
                 come_round: Callable[[], None] = lambda: None,
                 waiting: Callable[[int, float], object] = (
                     lambda _number, _seconds: None)
                 ) -> None:
        """Set up; step() does the work.

        :param lease: name of the leader's lease.
        :param token: returns the lease's token, or None if another controller
            leads.
        :param notify_hosts: called with hypervisors that are to fetch.
        :param notify_nodes: called with LB nodes that are to fetch.
        :param neutron: neutron_ports.client.Neutron, or None to create one
            when it is needed.
        :param notified: notified.Notified, for Neutron's notifications.
        :param come_round: called after each answer of Neutron and each stored
            load balancer, to show that a long step makes progress.
        :param waiting: called in each step with the number of look-ups in
            Neutron that wait, and the seconds for which the first has.
        """
        self._conf = conf.zero_touch
        self._store = store
        self._lease, self._token = lease, token
        self._notify_hosts, self._notify_nodes = notify_hosts, notify_nodes
        self._make_neutron: Callable[[], client.Neutron] = (
            lambda: neutron or client.Neutron(conf, come_round))
        self._come_round = come_round
        self._waiting = waiting
        self._addresses = options.allowed_addresses(conf)
        # [zero_touch] host_networks replaces members' networks.
        self._policy = dataclasses.replace(self._addresses,
                                           member_networks=None)
        self._networks = option_values.networks(conf, 'zero_touch',
                                                'host_networks')
        self._tokens = tokens.Tokens(
            option_values.networks(conf, 'proxy', 'token_networks'),
            option_values.networks(conf, 'zero_touch', 'proxy_networks'))
        self._notified = notified or notified_.Notified()
        self._leading_token: int | None = None
        self._logged_error: str | None = None

    def _begin(self, token: int) -> None:
        """Read the state, as this process has just become the leader."""
        self._neutron: client.Neutron | None = None
        self._follower: follower.Follower | None = None
        self._as_of = 0  # generation up to which changes have been read
        self._balancers: dict[str, rows.LoadBalancer] = {}
        self._members = members_.Members()
        self._moves = moves.Moves(self._conf.migration_patience)
        self._sets: dict[str, tuple[str, ...]] = {}
        self._hosts: dict[str, hypervisors.Hypervisor] = {}
        self._ends: ends.Ends = {}
        self._silent: set[str] = set()
        self._dirty: set[str] = set()
        # (host, port id) whose documents may change
        self._ports: set[tuple[str, str]] = set()
        self._due: dict[str, float] = {}
        self._plan = plan.Plan(
            self._store.ways.host_keys(), self._store.hypervisors.objects(),
            self._store.ways.select(), self._conf.key_quarantine,
            tokens=self._tokens)
        self._leading_token = token

    def step(self) -> None:
        """Handle everything that has changed.

        :raises LeaseLost: another controller leads.
        """
        token = self._token()
        if token is None:
            self._leading_token = None
            self._notified.ignore()
            self._waiting(0, 0.0)
            return
        if token != self._leading_token:
            self._begin(token)
        try:
            self._step(token)
        except Exception:
            # The state in memory may be ahead of the stored state.
            self._leading_token = None
            raise

    def _step(self, token: int) -> None:
        if self._is_due('all', _ALL_S):
            self._as_of = 0
            self._dirty |= self._balancers.keys()
        self._read_balancers()
        if not self._balancers and not self._plan.keys and (
                not self._plan.objects):
            return
        self._read_hosts()
        self._follow()
        self._dirty |= self._members.balancers_of(self._moves.take_over())
        self._remove_unused()
        decided = {key: self._decide(key) for key in sorted(self._dirty)}
        self._plan.refresh(self._ports, self._sets)
        self._ports.clear()
        self._save(token)
        self._dirty.clear()
        for key, decisions in decided.items():
            if decisions is not None:
                self._come_round()
                self._send_ways(key, decisions)
        self._save(token)

    def _is_due(self, name: str, interval_s: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(name, 0.0):
            return False
        self._due[name] = now + interval_s
        return True

    def _save(self, token: int) -> None:
        changes = self._plan.take()
        if not changes:
            return
        self._plan.stored(self._store.ways.store(changes, self._lease, token))
        hosts = {host for host, _ in changes.documents}
        if hosts:
            self._notify_hosts(hosts)

    # Detecting changes

    def _read_balancers(self) -> None:
        before = self._as_of
        self._as_of, generations = self._store.ways.zero_touch_changes(before)
        if self._as_of < before:
            # The database was restored from a backup.
            before = 0
            self._as_of, generations = self._store.ways.zero_touch_changes(
                before)
        changed = {key for key, generation in generations.items()
                   if generation is not None and (
                       key not in self._balancers
                       or self._balancers[key].generation != generation)}
        gone = {key for key, generation in generations.items()
                if generation is None}
        if not before:
            # Load balancers that are not stored yield no removal.
            gone |= (self._balancers.keys() | self._plan.keys.in_use_by()
                     ) - generations.keys()
        for key in gone:
            self._balancers.pop(key, None)
            self._follow_members(key, ())
        if changed:
            for row in self._store.load_balancers.select(changed):
                if not row.deleted and row.generation:
                    if row.id not in self._balancers:
                        self._moves.adopt(_with_patience(row.document))
                    self._balancers[row.id] = row
                    self._follow_members(
                        row.id, decision.all_wanted(row.document))
        self._dirty |= changed | gone

    def _follow_members(self, key: str, members: Iterable[findings.Wanted]
                        ) -> None:
        gone = self._members.replace(key, members)
        self._moves.forget(gone)
        if self._follower is not None:
            self._follower.leave(gone)
            self._follower.follow(members)

    def _read_hosts(self) -> None:
        now = self._store.database.now()
        before, ends_before = self._hosts, self._ends
        self._hosts = {row.host: row for row in self._store.hypervisors.all()}
        self._ends = ends.of_all(self._hosts.values(), self._policy,
                                 self._networks)
        silent = {host for host, row in self._hosts.items()
                  if ages.age(row.last_seen, now) > self._conf.host_timeout}
        reported = {host for host, row in self._hosts.items()
                    if host not in before or row.reported_generation
                    != before[host].reported_generation}
        changed = {host for host in {*self._hosts, *before}
                   if self._ends.get(host) != ends_before.get(host)}
        changed |= (silent ^ self._silent) | reported
        self._silent = silent
        if reported:
            self._plan.reported(reported, self._store.hypervisors.objects(
                reported))
        if changed:
            self._dirty |= self._plan.keys.balancers_on(changed)
            self._dirty |= self._members.balancers_on(changed)
            self._hint(reported)

    def _hint(self, hosts: Iterable[str]) -> None:
        """Look up ports whose tap has appeared on another hypervisor than
        Neutron's: the VM may have been moved."""
        if self._follower is None:
            return
        for host in hosts:
            for row in self._plan.objects.get(host, {}).values():
                if row.ifindex is not None:
                    self._follower.hint(
                        wanted for wanted, port
                        in self._members.of_port(row.id).items()
                        if self._lacks_tap(port))

    def _lacks_tap(self, port: findings.Port) -> bool:
        if port.host is None:
            return False
        row = self._plan.object_of(port.host, port.id)
        return row is not None and row.ifindex is None

    def _follow(self) -> None:
        in_turns = self._is_due('neutron', self._conf.neutron_interval)
        try:
            if self._follower is None:
                if not self._members:
                    return
                self._neutron = self._make_neutron()
                self._follower = follower.Follower(self._neutron)
                self._follower.follow(self._members)
            self._follower.hint(self._moves.followed())
            members, sets = self._notified.take()
            if members or sets:
                LOG.debug('Neutron has notified of %s members and %s groups.',
                          len(members), len(sets))
            self._follower.hint(members)
            changed = self._follower.step(in_turns)
            self._moves.note(changed)
            self._members.put_found(changed)
            if in_turns or sets:
                self._follow_sets(None if in_turns else sets)
            self._logged_error = None
        except (absence.NeutronUnavailable,
                option_values.ConfigurationError) as error:
            if str(error) != self._logged_error:
                LOG.error('Members cannot be looked up in Neutron, and stay '
                          'as they are: %s', error)
            self._logged_error = str(error)
            return
        finally:
            self._waiting(*(self._follower.waiting() if self._follower
                            else (0, 0.0)))
        if changed:
            self._dirty |= self._members.balancers_of(changed)
            self._ask_for_new_sets(changed)
        if changed or in_turns:
            self._notified.watch(self._members.found, self._sets)

    def _ask_for_new_sets(self,
                          changed: Mapping[findings.Wanted, findings.Finding]
                          ) -> None:
        named = {key for finding in changed.values() if finding.port
                 for rule in finding.port.rules for key in (
                     rule.remote_group_id, rule.remote_address_group_id)
                 if key}
        if named - self._sets.keys():
            try:
                self._follow_sets()
            except absence.NeutronUnavailable:
                self._due.pop('neutron', None)

    def _follow_sets(self, only: Set[str] | None = None) -> None:
        rules = [rule for finding in self._members.found.values()
                 if finding.port
                 for rule in finding.port.rules]
        groups = {rule.remote_group_id for rule in rules
                  if rule.remote_group_id}
        lists = {rule.remote_address_group_id for rule in rules
                 if rule.remote_address_group_id}
        if self._neutron is None or not groups | lists:
            return
        wanted = groups | lists if only is None else only
        sets = address_sets.find(self._neutron, groups & wanted,
                                 lists & wanted)
        address_sets.log_too_large(sets, self._sets)
        self._ports |= self._plan.judged_by({
            key for key, networks in sets.items()
            if networks != self._sets.get(key)})
        self._sets = sets if only is None else {**self._sets, **sets}
        self._plan.refresh_sets(set(self._plan.objects), self._sets)

    # Applying changes

    def _remove_unused(self) -> None:
        """Remove entries that no node uses any more from hypervisors."""
        now = self._store.database.now()
        if self._is_due('expire', _EXPIRE_S):
            self._plan.expire(now)
        unused = self._plan.keys.unused_balancers()
        if unused:
            self._ports |= self._plan.release(
                self._store.ways.synced_generations(unused, _REACHABLE), now)

    def _decide(self, key: str) -> dict[str, decision.Decision] | None:
        """Decide on a load balancer's members, and assign keys to them.

        :returns: id → Decision, or None if the load balancer is deleted.
        """
        row = self._balancers.get(key)
        if row is None:
            self._plan.assign(key, None, 0, {}, self._ends)
            self._plan.set_ways(key, [])
            return None
        decisions = decision.decide(row.document, self._members.found,
                                    self._ends,
                                    self._silent.__contains__, self._tokens)
        touched, full = self._plan.assign(key, row.document, row.generation,
                                          decisions, self._ends)
        self._ports |= touched
        for member, reason in {**self._plan.errors_of(decisions),
                               **full}.items():
            if not _has_tunnel(row.document, member):
                decisions[member] = decision.without(row.document, member,
                                                     reason)
        decision.close(row.document, decisions, self._addresses)
        return decisions

    def _send_ways(self, key: str, decisions: dict[str, decision.Decision]
                   ) -> None:
        """Store the ways to members in the document for LB nodes."""
        row = self._balancers[key]
        after = self._plan.document(
            row.document, decisions, self._ends,
            self._moves.patience(row.document))
        if after == row.document:
            return
        try:
            validation.validate(after, None)
            generation = self._store.load_balancers.change(
                key, lambda document: after, expected=row.generation)
        except errors.UnknownObject:
            generation = None
        except errors.Refused as error:
            LOG.error('Load balancer %s: members\' tunnels stay as they are, '
                      'because new ones are invalid: %s', key,
                      error.for_operator)
            return
        if generation is None:
            # A change is pending; try again after it.
            self._dirty.add(key)
            return
        LOG.info('Load balancer %s: the ways to its members have changed, '
                 'generation %s.', key, generation)
        self._dirty.add(key)  # Some keys may be unused now.
        self._notify_nodes({placement.host for placement
                            in self._store.placements.select([key])})


def _with_patience(document: spec.Document) -> list[findings.Wanted]:
    return [decision.wanted(document, member)
            for pool in document['pools'].values()
            for member in pool['members'].values()
            if 'patience' in member.get('tunnel', {})]


def _has_tunnel(document: spec.Document, member_id: str) -> bool:
    return any('tunnel' in pool['members'].get(member_id, {})
               for pool in document['pools'].values())
