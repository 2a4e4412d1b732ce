# SPDX-License-Identifier: Apache-2.0
"""The leader's work for members that are reached through hypervisors.

A step compares what load balancers want, what Neutron has and what
hypervisors report with what is stored, and stores what follows: documents of
hypervisors first, tunnels in the documents of LB nodes once the hypervisor
has confirmed them. It looks at load balancers of which something of that has
changed. What it has in memory can all be read again: another leader does.
"""

import dataclasses
import time

from oslo_log import log as logging

from octavia_xdp_provider.common import ages
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import host_spec
from octavia_xdp_provider.common import loops
from octavia_xdp_provider.common import option_values
from octavia_xdp_provider.common import options
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.common import validation
from octavia_xdp_provider.controller.neutron_ports import address_sets
from octavia_xdp_provider.controller.neutron_ports import client
from octavia_xdp_provider.controller.neutron_ports import errors as absence
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.neutron_ports import follower
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.store import leases
from octavia_xdp_provider.controller.zero_touch import decision
from octavia_xdp_provider.controller.zero_touch import ends
from octavia_xdp_provider.controller.zero_touch import members as members_
from octavia_xdp_provider.controller.zero_touch import moves
from octavia_xdp_provider.controller.zero_touch import nodes
from octavia_xdp_provider.controller.zero_touch import notified as notified_
from octavia_xdp_provider.controller.zero_touch import plan

LOG = logging.getLogger(__name__)

# Seconds between two steps, unless somebody wakes it.
INTERVAL_S = 1.0
# Seconds after which every load balancer is looked at again.
_ALL_S = 300.0
_EXPIRE_S = 10.0
_HEARD = tuple(one.value for one in clusters.REACHABLE)


def loop(zero_touch, come_round=lambda: None):
    """The loop that takes the steps of ``zero_touch``.

    :param come_round: see Loops.watch.
    """
    return loops.Loop(
        zero_touch.step, INTERVAL_S, 'Members on hypervisors cannot be looked '
        'after; trying again.', come_round, leases.LeaseLost)


class ZeroTouch:
    """Belongs to one thread."""

    def __init__(self, conf, store, lease, token, notify_hosts, notify_nodes,
                 neutron=None, notified=None, come_round=lambda: None):
        """:param lease: name of the leader's lease.

        :param token: gives its token, or None: another one leads.
        :param notify_hosts: called with hypervisors that shall fetch.
        :param notify_nodes: called with LB nodes that shall.
        :param neutron: neutron_ports.client.Neutron; None: made when needed.
        :param notified: notified.Notified, of Neutron's notifications.
        :param come_round: called whenever Neutron has answered, and with each
            load balancer that is stored: a step with thousands of members
            takes long, and does not hang.
        """
        self._conf = conf.zero_touch
        self._store = store
        self._lease, self._token = lease, token
        self._notify_hosts, self._notify_nodes = notify_hosts, notify_nodes
        self._make_neutron = (lambda: neutron) if neutron else (
            lambda: client.Neutron(conf, come_round))
        self._come_round = come_round
        self._addresses = options.allowed_addresses(conf)
        # Instead of members' networks there are those of hypervisors.
        self._policy = dataclasses.replace(self._addresses,
                                           member_networks=None)
        self._networks = option_values.networks(conf, 'zero_touch',
                                                'host_networks')
        self._notified = notified or notified_.Notified()
        self._led_with = None
        self._complained = None

    def _begin(self, token):
        """This process leads since a moment ago."""
        self._neutron = self._follower = None
        self._as_of = 0  # the generation up to which the next are known
        self._balancers = {}  # id → rows.LoadBalancer
        self._members = members_.Members()
        self._moves = moves.Moves(self._conf.migration_patience)
        self._sets = {}  # id → networks
        self._hosts = {}
        self._ends = {}
        self._silent = set()
        self._dirty = set()
        self._ports = set()  # (host, port id) to be made anew
        self._due = {}
        self._plan = plan.Plan(
            self._store.host_keys(), self._store.host_objects(),
            self._store.member_ways(), self._conf.key_quarantine)
        self._led_with = token

    def step(self):
        """Do what is to be done now.

        :raises LeaseLost: another one leads.
        """
        token = self._token()
        if token is None:
            self._led_with = None
            self._notified.ignore()
            return
        if token != self._led_with:
            self._begin(token)
        try:
            self._step(token)
        except Exception:
            # What is in memory may be ahead of what is stored.
            self._led_with = None
            raise

    def _step(self, token):
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
        self._let_go()
        looked_at = {key: self._look(key) for key in sorted(self._dirty)}
        self._plan.refresh(self._ports, self._sets)
        self._ports.clear()
        self._save(token)
        self._dirty.clear()
        for key, decisions in looked_at.items():
            if decisions is not None:
                self._come_round()
                self._send_ways(key, decisions)
        self._save(token)

    def _is_due(self, name, interval_s):
        now = time.monotonic()
        if now < self._due.get(name, 0.0):
            return False
        self._due[name] = now + interval_s
        return True

    def _save(self, token):
        changes = self._plan.take()
        if not changes:
            return
        self._plan.stored(self._store.store_ways(changes, self._lease, token))
        hosts = {host for host, _ in changes.documents}
        if hosts:
            self._notify_hosts(hosts)

    # What has changed

    def _read_balancers(self):
        before = self._as_of
        self._as_of, found = self._store.zero_touch_changes(before)
        if self._as_of < before:
            # A database restored from a backup.
            before = 0
            self._as_of, found = self._store.zero_touch_changes(before)
        changed = {key for key, generation in found.items()
                   if generation is not None and (
                       key not in self._balancers
                       or self._balancers[key].generation != generation)}
        gone = {key for key, generation in found.items()
                if generation is None}
        if not before:
            # Of what is not there at all nobody has read that it went.
            gone |= (self._balancers.keys() | self._plan.keys.in_use_by()
                     ) - found.keys()
        for key in gone:
            self._balancers.pop(key, None)
            self._follow_members(key, ())
        if changed:
            for row in self._store.load_balancers(changed):
                if not row.deleted and row.generation:
                    if row.id not in self._balancers:
                        self._moves.adopt(_with_patience(row.document))
                    self._balancers[row.id] = row
                    self._follow_members(
                        row.id, decision.all_wanted(row.document))
        self._dirty |= changed | gone

    def _follow_members(self, key, members):
        gone = self._members.replace(key, members)
        self._moves.forget(gone)
        if self._follower is not None:
            self._follower.leave(gone)
            self._follower.follow(members)

    def _read_hosts(self):
        now = self._store.now()
        before, ends_before = self._hosts, self._ends
        self._hosts = {one.host: one for one in self._store.hypervisors()}
        self._ends = ends.of_all(self._hosts.values(), self._policy,
                                 self._networks)
        silent = {host for host, one in self._hosts.items()
                  if ages.age(one.last_seen, now) > self._conf.host_timeout}
        reported = {host for host, one in self._hosts.items()
                    if host not in before or one.reported_generation
                    != before[host].reported_generation}
        changed = {host for host in {*self._hosts, *before}
                   if self._ends.get(host) != ends_before.get(host)}
        changed |= (silent ^ self._silent) | reported
        self._silent = silent
        if reported:
            self._plan.reported(reported, self._store.host_objects(reported))
        if changed:
            self._dirty |= self._plan.keys.balancers_on(changed)
            self._dirty |= self._members.balancers_on(changed)
            self._hint(reported)

    def _hint(self, hosts):
        """A tap that has come where Neutron did not have the port: the VM
        may have been moved."""
        if self._follower is None:
            return
        for host in hosts:
            for one in self._plan.objects.get(host, {}).values():
                if one.ifindex is not None:
                    self._follower.hint(
                        wanted for wanted, port
                        in self._members.of_port(one.id).items()
                        if self._lacks_tap(port))

    def _lacks_tap(self, port):
        one = self._plan.object_of(port.host, port.id)
        return one is not None and one.ifindex is None

    def _follow(self):
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
            self._complained = None
        except (absence.NeutronUnavailable,
                option_values.ConfigurationError) as error:
            if str(error) != self._complained:
                LOG.error('Members are not looked for, and stay as they are: '
                          '%s', error)
            self._complained = str(error)
            return
        if changed:
            self._dirty |= self._members.balancers_of(changed)
            self._ask_for_new_sets(changed)
        if changed or in_turns:
            self._notified.watch(self._members.found, self._sets)

    def _ask_for_new_sets(self, changed):
        named = {key for finding in changed.values() if finding.port
                 for rule in finding.port.rules for key in (
                     rule.remote_group_id, rule.remote_address_group_id)
                 if key}
        if named - self._sets.keys():
            try:
                self._follow_sets()
            except absence.NeutronUnavailable:
                self._due.pop('neutron', None)

    def _follow_sets(self, only=None):
        rules = [rule for finding in self._members.found.values()
                 if finding.port
                 for rule in finding.port.rules]
        groups = {rule.remote_group_id for rule in rules
                  if rule.remote_group_id}
        lists = {rule.remote_address_group_id for rule in rules
                 if rule.remote_address_group_id}
        if not groups and not lists:
            return
        some = groups | lists if only is None else only
        found = address_sets.find(self._neutron, groups & some, lists & some)
        for key, networks in found.items():
            if len(networks) > host_spec.ADDRESSES_MAX and (
                    len(networks) != len(self._sets.get(key, ()))):
                LOG.warning(
                    'Group %s, which rules of security groups name, has %s '
                    'networks, and a hypervisor takes %s: clients in the '
                    'others are not let in. Name networks in the rules '
                    'instead, or make the group smaller.', key,
                    len(networks), host_spec.ADDRESSES_MAX)
        self._sets = found if only is None else {**self._sets, **found}
        self._plan.refresh_sets(set(self._plan.objects), self._sets)

    # What follows

    def _let_go(self):
        """Take off hypervisors what no node uses any more."""
        now = self._store.now()
        if self._is_due('expire', _EXPIRE_S):
            self._plan.expire(now)
        unused = self._plan.keys.unused_balancers()
        if unused:
            self._ports |= self._plan.release(
                self._store.synced_generations(unused, _HEARD), now)

    def _look(self, key):
        """Decide on a load balancer's members, and give them keys."""
        row = self._balancers.get(key)
        if row is None:
            self._plan.assign(key, None, 0, {}, self._ends)
            self._plan.set_ways(key, [])
            return None
        decisions = decision.decide(row.document, self._members.found,
                                    self._ends,
                                    self._silent.__contains__,
                                    nodes.problem(self._store, row.document))
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

    def _patience(self, row):
        """See Plan.document."""
        found = self._moves.patience(row.document)
        # A node that does not know it would refuse the load balancer.
        return found if found and nodes.know_patience(
            self._store, row.id) else {}

    def _send_ways(self, key, decisions):
        """Store how members are reached, for LB nodes."""
        row = self._balancers[key]
        after = self._plan.document(
            row.document, decisions, self._ends,
            nodes.know_alternatives(self._store, key), self._patience(row))
        if after == row.document:
            return
        try:
            validation.validate(after, None)
            generation = self._store.change(key, lambda document: after,
                                            expected=row.generation)
        except errors.UnknownObject:
            generation = None
        except errors.Refused as error:
            LOG.error('Load balancer %s: members\' tunnels stay as they are: '
                      '%s', key, error.for_operator)
            return
        if generation is None:
            # A change is pending: after it.
            self._dirty.add(key)
            return
        LOG.info('Load balancer %s: how members are reached has changed, '
                 'generation %s.', key, generation)
        self._dirty.add(key)  # Keys that are not used any more.
        self._notify_nodes({one.host for one
                            in self._store.placements([key])})


def _with_patience(document: spec.Document) -> list[findings.Wanted]:
    return [decision.wanted(document, member)
            for pool in document['pools'].values()
            for member in pool['members'].values()
            if 'patience' in member.get('tunnel', {})]


def _has_tunnel(document, member_id):
    return any('tunnel' in pool['members'].get(member_id, {})
               for pool in document['pools'].values())
