# SPDX-License-Identifier: Apache-2.0
"""From decisions to keys, documents of hypervisors and members' tunnels.

All of it is computed from rows that the leader alone writes, and that it has
in memory; what one step changes is stored in one transaction.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import copy
import dataclasses
import itertools
import random
from typing import Any
from typing import cast

from octavia_xdp_provider.common import host_spec
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.common import tunnels
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.store import hypervisors
from octavia_xdp_provider.controller.store import ways
from octavia_xdp_provider.controller.zero_touch import decision
from octavia_xdp_provider.controller.zero_touch import ends as ends_
from octavia_xdp_provider.controller.zero_touch import keys as keys_
from octavia_xdp_provider.controller.zero_touch import port_documents

Decisions = dict[str, decision.Decision]
PortKey = tuple[str, str]  # host, Neutron's id


class Plan:
    """The leader's rows, and what is to be stored of them.

    :ivar changes: since the last take().
    """

    def __init__(self, keys: Iterable[ways.Key],
                 objects: Iterable[hypervisors.HostObject],
                 member_ways: Iterable[ways.Way], quarantine_s: float,
                 draw: Callable[[int], int] | None = None) -> None:
        """:param draw: gives a random number below one that is given."""
        self.keys = keys_.Keys(keys)
        # Host → Neutron's id → what is stored of it.
        self.objects: dict[str, dict[str, hypervisors.HostObject]] = {}
        for one in objects:
            self.objects.setdefault(one.host, {})[one.id] = one
        self._ways: dict[str, list[ways.Way]] = {}
        for way in member_ways:
            self._ways.setdefault(way.load_balancer_id, []).append(way)
        self._quarantine_s = quarantine_s
        self._draw = draw or random.SystemRandom().randrange
        self._ports: dict[PortKey, tuple[findings.Port, int]] = {}
        self.changes = ways.Changes()

    def take(self) -> ways.Changes:
        found, self.changes = self.changes, ways.Changes()
        return found

    def stored(self, documents: Iterable[hypervisors.HostObject]) -> None:
        """Documents that were stored, with their generations."""
        for one in documents:
            there = self.objects.setdefault(one.host, {})
            there[one.id] = dataclasses.replace(
                there.get(one.id, one), kind=one.kind,
                document=one.document, generation=one.generation,
                removed_generation=one.removed_generation)

    def object_of(self, host: str, key: str) -> hypervisors.HostObject | None:
        return self.objects.get(host, {}).get(key)

    def reported(self, hosts: Iterable[str],
                 objects: Iterable[hypervisors.HostObject]) -> None:
        """What some hypervisors have now."""
        for host in hosts:
            self.objects.pop(host, None)
        for one in objects:
            self.objects.setdefault(one.host, {})[one.id] = one

    # Keys

    def _set_key(self, key: ways.Key) -> None:
        if self.keys.get(key.name) != key:
            self.changes.keys[key.name] = key
            self.keys.put(key)

    def expire(self, now: float) -> None:
        """Forget keys whose quarantine is over. One that ends later than any
        can is taken for one that began before the clock was set back, and
        begins anew."""
        for key in self.keys.quarantined():
            assert key.free_at is not None
            if key.free_at > now + self._quarantine_s:
                self._set_key(dataclasses.replace(
                    key, free_at=now + self._quarantine_s))
            elif key.free_at <= now:
                self.keys.remove(key.name)
                self.changes.keys[key.name] = None

    def release(self, synced: Mapping[str, int], now: float) -> set[PortKey]:
        """Begin the quarantine of keys that no node uses any more.

        :param synced: Ways.synced_generations() of their load balancers.
        :returns: ports whose documents have changed by that.
        """
        touched = set()
        for balancer_id in self.keys.unused_balancers():
            least = synced.get(balancer_id)
            for key in self.keys.unused_of(balancer_id):
                assert key.unused_generation is not None
                if least is None or least >= key.unused_generation:
                    self._set_key(dataclasses.replace(
                        key, free_at=now + self._quarantine_s))
                    touched.add((key.host, key.port_id))
        return touched

    def assign(self, balancer_id: str, document: spec.Document | None,
               generation: int, decisions: Decisions, ends: ends_.Ends
               ) -> tuple[set[PortKey], dict[str, str]]:
        """Give keys to what needs them, and mark those that nothing does.

        :param document: None: the load balancer is deleted.
        :returns: ports that are concerned, and members that cannot have one,
            with the reason.
        """
        touched: set[PortKey] = set()
        needed: set[tuple[str, int]] = set()
        full: dict[str, str] = {}
        if document is not None:
            for member_id, one in decisions.items():
                if one.way == decision.WAITING:
                    needed |= self._used_now(document, member_id)
                for host in one.hosts:
                    problem = self._assign_member(
                        document, member_id, host, one, ends, touched, needed)
                    if problem:
                        full[member_id] = problem
            needed |= self._in_use(document)
        for key in self.keys.of_balancer(balancer_id):
            if key.name in needed:
                continue
            if key.free_at is None and key.unused_generation is None:
                self._set_key(dataclasses.replace(
                    key, unused_generation=keys_.NEVER if document is None
                    else generation))
            elif document is None and key.free_at is None:
                self._set_key(dataclasses.replace(
                    key, unused_generation=keys_.NEVER))
        return touched, full

    def _assign_member(self, document: spec.Document, member_id: str,
                       host: str, one: decision.Decision, ends: ends_.Ends,
                       touched: set[PortKey], needed: set[tuple[str, int]]
                       ) -> str:
        end, port = ends[host], one.port
        if not isinstance(end, ends_.End) or port is None:
            return ''
        pool_id, member = next(
            (pool_id, pool['members'][member_id])
            for pool_id, pool in document['pools'].items()
            if member_id in pool['members'])
        self._ports[host, port.id] = port, min(port.mtu, end.mtu)
        touched.add((host, port.id))
        for listener_id, vip in itertools.product(
                decision.listeners(document, pool_id), spec.vips(document)):
            key = self._find(document['id'], listener_id, member_id, vip, host,
                             end.bits)
            if key is None:
                problem = self._lack(host, port.id, end)
                if problem:
                    return problem
                key = self._new(host, end.bits)
            found = port_documents.entry(document, listener_id, member_id,
                                         member, port, vip)
            self._set_key(ways.Key(
                host, key, port.id, document['id'], listener_id, member_id,
                {**found, 'key': key}))
            needed.add((host, key))
        return ''

    def _find(self, balancer_id: str, listener_id: str, member_id: str,
              vip: str, host: str, bits: int) -> int | None:
        """A key that was given before: to the same it may be given again."""
        own = [key for key in self.keys.of_balancer(balancer_id)
               if (key.listener_id, key.member_id, key.vip, key.host)
               == (listener_id, member_id, vip, host) and not key.key >> bits]
        return min((key.free_at is not None, key.key)
                   for key in own)[1] if own else None

    def _lack(self, host: str, port_id: str, end: ends_.End) -> str:
        number = self.keys.used_on(host)
        if end.entries_max is not None and number >= end.entries_max:
            return (f'hypervisor {host} has {number} of {end.entries_max} '
                    'entries')
        number = len(self.keys.used_of_port(host, port_id))
        if number >= host_spec.ENTRIES_MAX:
            return f'its port has {number} listeners, and no more can be'
        return ''

    def _new(self, host: str, bits: int) -> int:
        """A key that no entry of the hypervisor has, nor had lately."""
        while True:
            key = self._draw(1 << bits)
            if key and (host, key) not in self.keys:
                return key

    def _used_now(self, document: spec.Document, member_id: str
                  ) -> set[tuple[str, int]]:
        """Keys of a member that stays as it is: also those of a hypervisor to
        which it is on its way, for Neutron has no binding for a moment when
        that moves."""
        listeners = {listener for pool_id, pool in document['pools'].items()
                     if member_id in pool['members']
                     for listener in decision.listeners(document, pool_id)}
        return {key.name for key in self.keys.of_balancer(document['id'])
                if key.member_id == member_id and key.listener_id in listeners
                and key.free_at is None and key.unused_generation is None}

    def _in_use(self, document: spec.Document) -> set[tuple[str, int]]:
        """Keys that nodes are sent."""
        by_use = {(key.listener_id, key.member_id, key.key): key.name
                  for key in self.keys.of_balancer(document['id'])
                  if key.free_at is None}
        return {name for pool in document['pools'].values()
                for member_id, member in pool['members'].items()
                if 'tunnel' in member
                for keys in (
                    member['tunnel'].get('keys', {}),
                    *member['tunnel'].get('additional_keys', {}).values())
                for listener_id, key in keys.items()
                if (name := by_use.get((listener_id, member_id, key)))}

    # Documents of hypervisors

    def refresh(self, ports: Iterable[PortKey],
                sets: Mapping[str, Iterable[str]]) -> None:
        """Make the documents of some ports, and of the address sets on their
        hypervisors, as they should be now."""
        ports = set(ports)
        for name in ports:
            self._set_port(name, [key.entry for key
                                  in self.keys.used_of_port(*name)])
        self.refresh_sets({host for host, _ in ports}, sets)

    def _set_port(self, name: PortKey, entries: list[dict[str, Any]]) -> None:
        if not entries:
            self._ports.pop(name, None)
            self._set_document(name, None)
        elif name in self._ports:
            self._set_document(name, (
                host_spec.PORT, port_documents.port_document(
                    *self._ports[name], entries)))
        elif (one := self.object_of(*name)) is not None:
            self._set_document(name, (
                host_spec.PORT, port_documents.with_entries(
                    one.document, entries)))

    def refresh_sets(self, hosts: set[str], sets: Mapping[str, Iterable[str]]
                     ) -> None:
        """:param sets: id → networks, as far as they are known."""
        names = {(host, key) for host in hosts
                 for key in self.objects.get(host, ())}
        names |= {name for name in self.changes.documents if name[0] in hosts}
        there = {name: found for name in names
                 if (found := self._wanted(name))}
        named = {(host, key) for (host, _), (kind, document) in there.items()
                 if kind == host_spec.PORT
                 for key in port_documents.named_sets(document)}
        for host, key in named:
            if key in sets:
                self._set_document((host, key), (
                    host_spec.ADDRESS_SET,
                    port_documents.address_set(key, sets[key])))
        for name, (kind, _) in there.items():
            if kind == host_spec.ADDRESS_SET and name not in named:
                self._set_document(name, None)

    def _wanted(self, name: PortKey) -> tuple[str, dict[str, Any]] | None:
        if name in self.changes.documents:
            return self.changes.documents[name]
        one = self.object_of(*name)
        return None if one is None or one.removed_generation is not None else (
            one.kind, one.document)

    def _set_document(self, name: PortKey,
                      wanted: tuple[str, dict[str, Any]] | None) -> None:
        if self._wanted(name) != wanted:
            self.changes.documents[name] = wanted

    # Documents of LB nodes

    def document(self, before: spec.Document, decisions: Decisions,
                 ends: ends_.Ends, alternatives: bool = False,
                 patience: Mapping[str, int] | None = None
                 ) -> spec.Document:
        """The document with each member's tunnel or way, and what came of
        each decision noted for the operator.

        :param alternatives: its nodes can name a second member in a tunnel.
        :param patience: seconds, by id of the members that are moving.
        """
        after = copy.deepcopy(before)
        if not before['flavor'].get('second_chance'):
            alternatives = False
        if not alternatives:
            ends = {host: dataclasses.replace(end, takes_alternative=False)
                    if isinstance(end, ends_.End) else end
                    for host, end in ends.items()}
        noted = []
        for pool_id, pool in after['pools'].items():
            for key, member in pool['members'].items():
                way = self._set_way(after, pool_id, key, member,
                                    decisions[key], ends)
                noted.append(way)
                _set_patience(member, decisions[key],
                              (patience or {}).get(key))
        self.set_ways(after['id'], noted)
        return after

    def _set_way(self, document: spec.Document, pool_id: str, key: str,
                 member: spec.Member, one: decision.Decision,
                 ends: ends_.Ends) -> ways.Way:
        host = one.hosts[0] if one.hosts else None
        found, reason = one.way, one.reason
        if host is not None and one.port is not None:
            # Where no listener uses it there is nothing to wait for.
            reason = self._not_ready(host, one.port.id) if (
                decision.listeners(document, pool_id)) else ''
            if not reason:
                member.pop('way', None)
                member['tunnel'] = self._tunnel(
                    document, pool_id, key, host, ends[host], one.port)
            elif 'tunnel' not in member:
                found = decision.WAITING
        elif found in (decision.DIRECT, decision.NONE):
            member.pop('tunnel', None)
            member['way'] = cast(Any, found)
        if found == decision.WAITING and 'tunnel' in member:
            found = decision.TUNNEL
        return ways.Way(document['id'], key, found, host,
                        one.port.id if one.port else None, reason)

    def _not_ready(self, host: str, port_id: str) -> str:
        """Why nodes cannot be sent a tunnel yet."""
        one = self.object_of(host, port_id)
        if one is not None and one.error:
            return f'hypervisor {host}: {one.error}'
        if one is None or not one.is_held or (
                (host, port_id) in self.changes.documents):
            return f'hypervisor {host} has not confirmed it yet'
        return ''

    def _tunnel(self, document: spec.Document, pool_id: str, member_id: str,
                host: str, end: ends_.End | str, port: findings.Port
                ) -> spec.Tunnel:
        assert isinstance(end, ends_.End)
        first, *others = (
            self._keys_of(document, pool_id, member_id, vip, host, end.bits)
            for vip in spec.vips(document))
        tunnel: spec.Tunnel = {
            'address': end.address, 'encapsulation': end.encapsulation,
            'keys': first, 'mtu': min(port.mtu, end.mtu)}
        if end.takes_alternative:
            tunnel['takes_alternative'] = True
            tunnel['mtu'] = min(port.mtu, end.mtu - tunnels.alternative_length(
                end.address))
        if others:
            tunnel['additional_keys'] = dict(zip(
                spec.vips(document)[1:], others, strict=True))
        return tunnel

    def _keys_of(self, document: spec.Document, pool_id: str, member_id: str,
                 vip: str, host: str, bits: int) -> dict[str, int]:
        """Of a member on a hypervisor, by listener."""
        return {listener: key
                for listener in decision.listeners(document, pool_id)
                if (key := self._find(document['id'], listener, member_id,
                                      vip, host, bits)) is not None}

    def set_ways(self, balancer_id: str, noted: list[ways.Way]) -> None:
        noted = sorted(noted, key=lambda way: way.member_id)
        if noted != sorted(self._ways.get(balancer_id, []),
                           key=lambda way: way.member_id):
            self._ways[balancer_id] = self.changes.ways[balancer_id] = noted
        if not noted:
            self._ways.pop(balancer_id, None)

    def errors_of(self, decisions: Decisions) -> dict[str, str]:
        """Members that the hypervisor says it cannot do."""
        return {key: f'hypervisor {one.hosts[0]}: {found.error}'
                for key, one in decisions.items()
                if one.hosts and one.port is not None
                and (found := self.object_of(one.hosts[0], one.port.id))
                and found.error}


def _set_patience(member: spec.Member, one: decision.Decision,
                  patience: int | None) -> None:
    """Also while the tunnel is still the old one. While Neutron does not say
    where the port is, all stays as it is."""
    if 'tunnel' not in member or one.way != decision.TUNNEL:
        return
    member['tunnel'].pop('patience', None)
    if patience:
        member['tunnel']['patience'] = patience
