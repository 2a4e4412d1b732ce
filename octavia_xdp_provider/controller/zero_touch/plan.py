# SPDX-License-Identifier: Apache-2.0
"""Turns decisions into keys, documents of hypervisors and members' tunnels.

All of it is computed from rows that only the leader writes, and that it keeps
in memory. The changes of one step are stored in one transaction.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Set
import copy
import dataclasses
import itertools
import random
from typing import Any
from typing import cast

from octavia_xdp_provider.api import tunnels
from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.store import hypervisors
from octavia_xdp_provider.controller.store import ways
from octavia_xdp_provider.controller.zero_touch import decision
from octavia_xdp_provider.controller.zero_touch import ends as ends_
from octavia_xdp_provider.controller.zero_touch import keys as keys_
from octavia_xdp_provider.controller.zero_touch import port_documents
from octavia_xdp_provider.controller.zero_touch import tokens as tokens_

Decisions = dict[str, decision.Decision]
PortKey = tuple[str, str]  # host, Neutron's id


class Plan:
    """The leader's rows, and changes that are to be stored.

    :ivar changes: changes since the last take().
    """

    def __init__(self, keys: Iterable[ways.Key],
                 objects: Iterable[hypervisors.HostObject],
                 member_ways: Iterable[ways.Way], quarantine_s: float,
                 draw: Callable[[int], int] | None = None,
                 tokens: tokens_.Tokens | None = None) -> None:
        """Take over the stored rows.

        :param draw: returns a random number below its argument.
        """
        self.keys = keys_.Keys(keys)
        # Host → Neutron's id → row.
        self.objects: dict[str, dict[str, hypervisors.HostObject]] = {}
        for row in objects:
            self.objects.setdefault(row.host, {})[row.id] = row
        self._ways: dict[str, list[ways.Way]] = {}
        for way in member_ways:
            self._ways.setdefault(way.load_balancer_id, []).append(way)
        self._quarantine_s = quarantine_s
        self._draw = draw or random.SystemRandom().randrange
        self._tokens = tokens or tokens_.Tokens()
        self._ports: dict[PortKey, tuple[findings.Port, int]] = {}
        self.changes = ways.Changes()

    def take(self) -> ways.Changes:
        """Return the changes since the last call."""
        changes, self.changes = self.changes, ways.Changes()
        return changes

    def stored(self, documents: Iterable[hypervisors.HostObject]) -> None:
        """Note documents that were stored, with their generations."""
        for row in documents:
            rows = self.objects.setdefault(row.host, {})
            rows[row.id] = dataclasses.replace(
                rows.get(row.id, row), kind=row.kind,
                document=row.document, generation=row.generation,
                removed_generation=row.removed_generation)

    def object_of(self, host: str, key: str) -> hypervisors.HostObject | None:
        return self.objects.get(host, {}).get(key)

    def reported(self, hosts: Iterable[str],
                 objects: Iterable[hypervisors.HostObject]) -> None:
        """Replace the rows of hypervisors that have reported."""
        for host in hosts:
            self.objects.pop(host, None)
        for row in objects:
            self.objects.setdefault(row.host, {})[row.id] = row

    # Keys

    def _set_key(self, key: ways.Key) -> None:
        if self.keys.get(key.name) != key:
            self.changes.keys[key.name] = key
            self.keys.put(key)

    def expire(self, now: float) -> None:
        """Forget keys whose quarantine is over.

        A quarantine that ends later than possible began before the clock was
        set back, and starts over.
        """
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

        :param synced: the store's synced_generations() of their load
            balancers.
        :returns: the ports whose documents change.
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
        """Assign the keys that are needed, and mark unused ones.

        :param document: None if the load balancer is deleted.
        :returns: the ports whose documents may change, and member id → reason
            for members that cannot have a key.
        """
        touched: set[PortKey] = set()
        needed: set[tuple[str, int]] = set()
        full: dict[str, str] = {}
        if document is not None:
            for member_id, decided in decisions.items():
                if decided.way == decision.WAITING:
                    needed |= self._used_now(document, member_id)
                for host in decided.hosts:
                    problem = self._assign_member(
                        document, member_id, host, decided.port, ends,
                        touched, needed)
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
                       host: str, port: findings.Port | None,
                       ends: ends_.Ends, touched: set[PortKey],
                       needed: set[tuple[str, int]]) -> str:
        end = ends[host]
        if not isinstance(end, ends_.End) or port is None:
            return ''
        pool_id = next(key for key, pool in document['pools'].items()
                       if member_id in pool['members'])
        vips = spec.vips(document)
        if tokens_.is_proxied(document, pool_id):
            token = self._token(document, pool_id, member_id)
            if token is None:
                return 'no address of [proxy] token_networks is free'
            vips = [token]
        self._ports[host, port.id] = port, min(port.mtu, end.mtu)
        touched.add((host, port.id))
        for listener_id, vip in itertools.product(
                decision.uses(document, pool_id), vips):
            key = self._find(document['id'], listener_id, member_id, vip, host,
                             end.bits)
            if key is None:
                problem = self._missing_capacity(host, port.id, end)
                if problem:
                    return problem
                key = self._new(host, end.bits)
            entry = (
                port_documents.token_entry(document, pool_id, member_id, port,
                                           vip)
                if listener_id == pool_id else port_documents.entry(
                    document, listener_id, member_id,
                    document['pools'][pool_id]['members'][member_id], port,
                    vip))
            self._set_key(ways.Key(
                host, key, port.id, document['id'], listener_id, member_id,
                {**entry, 'key': key}))
            needed.add((host, key))
        return ''

    def _token(self, document: spec.Document, pool_id: str, member_id: str
               ) -> str | None:
        """Return the member's token, which may be new, or None."""
        members = document['pools'][pool_id]['members']
        return (self._tokens.find(self.keys, document, pool_id, member_id)
                or self._tokens.new(self.keys, members[member_id]['address'],
                                    self._draw))

    def _find(self, balancer_id: str, listener_id: str, member_id: str,
              vip: str, host: str, bits: int) -> int | None:
        """Return an earlier key for the same purpose, or None.

        Such a key may be reused even in its quarantine.
        """
        own = [key for key in self.keys.of_balancer(balancer_id)
               if (key.listener_id, key.member_id, key.vip, key.host)
               == (listener_id, member_id, vip, host) and not key.key >> bits]
        return min((key.free_at is not None, key.key)
                   for key in own)[1] if own else None

    def _missing_capacity(self, host: str, port_id: str, end: ends_.End
                          ) -> str:
        number = self.keys.used_on(host)
        if end.entries_max is not None and number >= end.entries_max:
            return (f'hypervisor {host} has {number} of {end.entries_max} '
                    'entries')
        number = len(self.keys.used_of_port(host, port_id))
        if number >= host_spec.ENTRIES_MAX:
            return f'its port has {number} listeners, which is the maximum'
        return ''

    def _new(self, host: str, bits: int) -> int:
        """Return a key that is neither used nor in quarantine."""
        while True:
            key = self._draw(1 << bits)
            if key and (host, key) not in self.keys:
                return key

    def _used_now(self, document: spec.Document, member_id: str
                  ) -> set[tuple[str, int]]:
        """Return the names of all keys of a member that stays as it is.

        They include keys of a hypervisor to which it is moving, as Neutron
        has no binding for a moment during the move.
        """
        listeners = {listener for pool_id, pool in document['pools'].items()
                     if member_id in pool['members']
                     for listener in decision.uses(document, pool_id)}
        return {key.name for key in self.keys.of_balancer(document['id'])
                if key.member_id == member_id and key.listener_id in listeners
                and key.free_at is None and key.unused_generation is None}

    def _in_use(self, document: spec.Document) -> set[tuple[str, int]]:
        """Return the names of keys in the tunnels of a document."""
        by_use = {(key.listener_id, key.member_id, key.key): key.name
                  for key in self.keys.of_balancer(document['id'])
                  if key.free_at is None}
        pools = [*document['pools'].items(), *(
            ('', moved['pool']) for moved in document.get('moved', {}).values()
        )]
        return {name for pool_id, pool in pools
                for member_id, member in pool['members'].items()
                if 'tunnel' in member
                for keys in (
                    {pool_id: member['tunnel'].get('key', 0)},
                    member['tunnel'].get('keys', {}),
                    *member['tunnel'].get('additional_keys', {}).values())
                for listener_id, key in keys.items()
                if (name := by_use.get((listener_id, member_id, key)))}

    # Documents of hypervisors

    def refresh(self, ports: Iterable[PortKey],
                sets: Mapping[str, Iterable[str]]) -> None:
        """Update the documents of ports, and of address sets on their
        hypervisors."""
        ports = set(ports)
        for name in ports:
            self._set_port(name, [key.entry for key
                                  in self.keys.used_of_port(*name)], sets)
        self.refresh_sets({host for host, _ in ports}, sets)

    def _set_port(self, name: PortKey, entries: list[dict[str, Any]],
                  sets: Mapping[str, Iterable[str]]) -> None:
        if not entries:
            self._ports.pop(name, None)
            self._set_document(name, None)
        elif name in self._ports:
            self._set_document(name, (
                host_spec.PORT, port_documents.port_document(
                    *self._ports[name], entries, sets,
                    self._tokens.sources)))
        elif (row := self.object_of(*name)) is not None:
            self._set_document(name, (
                host_spec.PORT, port_documents.with_entries(
                    row.document, entries)))

    def judged_by(self, changed: Set[str]) -> set[PortKey]:
        """Return ports with tokens whose rules name one of these sets."""
        return {(host, key) for host, rows in self.objects.items()
                for key, row in rows.items()
                if changed & port_documents.named_sets(row.document)
                and any('judged_as' in entry
                        for entry in row.document.get('entries', ()))}

    def refresh_sets(self, hosts: set[str], sets: Mapping[str, Iterable[str]]
                     ) -> None:
        """Update the documents of address sets on hypervisors.

        :param sets: id → networks of the known sets.
        """
        names = {(host, key) for host in hosts
                 for key in self.objects.get(host, ())}
        names |= {name for name in self.changes.documents if name[0] in hosts}
        wanted = {name: document for name in names
                  if (document := self._wanted(name))}
        named = {(host, key) for (host, _), (kind, document) in wanted.items()
                 if kind == host_spec.PORT
                 for key in port_documents.named_sets(document)}
        for host, key in named:
            if key in sets:
                self._set_document((host, key), (
                    host_spec.ADDRESS_SET,
                    port_documents.address_set(key, sets[key])))
        for name, (kind, _) in wanted.items():
            if kind == host_spec.ADDRESS_SET and name not in named:
                self._set_document(name, None)

    def _wanted(self, name: PortKey) -> tuple[str, dict[str, Any]] | None:
        if name in self.changes.documents:
            return self.changes.documents[name]
        row = self.object_of(*name)
        return None if row is None or row.removed_generation is not None else (
            row.kind, row.document)

    def _set_document(self, name: PortKey,
                      wanted: tuple[str, dict[str, Any]] | None) -> None:
        if self._wanted(name) != wanted:
            self.changes.documents[name] = wanted

    # Documents of LB nodes

    def document(self, before: spec.Document, decisions: Decisions,
                 ends: ends_.Ends,
                 patience: Mapping[str, int] | None = None
                 ) -> spec.Document:
        """Return the document with each member's tunnel or way, and note the
        results of the decisions for the operator.

        :param patience: member id → seconds, of members that are moving.
        """
        after = copy.deepcopy(before)
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
                 member: spec.Member, decided: decision.Decision,
                 ends: ends_.Ends) -> ways.Way:
        host = decided.hosts[0] if decided.hosts else None
        port, way, reason = decided.port, decided.way, decided.reason
        if host is not None and port is not None:
            # Without a listener there is no entry to wait for.
            reason = self._not_ready(host, port.id) if (
                decision.uses(document, pool_id)) else ''
            if not reason:
                member.pop('way', None)
                self._set_tunnel(document, pool_id, key, host, port,
                                 ends[host])
            elif 'tunnel' not in member:
                way = decision.WAITING
        elif way in (decision.DIRECT, decision.NONE):
            member.pop('tunnel', None)
            member.pop('token', None)
            member['way'] = cast(Any, way)
        if way == decision.WAITING and 'tunnel' in member:
            way = decision.TUNNEL
        return ways.Way(document['id'], key, way, host,
                        port.id if port else None, reason)

    def _not_ready(self, host: str, port_id: str) -> str:
        """Return why nodes cannot be sent a tunnel yet, or ''."""
        row = self.object_of(host, port_id)
        if row is not None and row.error:
            return f'hypervisor {host}: {row.error}'
        if row is None or not row.is_held or (
                (host, port_id) in self.changes.documents):
            return f'hypervisor {host} has not confirmed it yet'
        return ''

    def _set_tunnel(self, document: spec.Document, pool_id: str,
                    member_id: str, host: str, port: findings.Port,
                    end: ends_.End | str) -> None:
        assert isinstance(end, ends_.End)
        member = document['pools'][pool_id]['members'][member_id]
        member.pop('token', None)
        if not tokens_.is_proxied(document, pool_id):
            member['tunnel'] = self._tunnel(document, pool_id, member_id,
                                            host, end, port)
            return
        token = self._tokens.find(self.keys, document, pool_id, member_id)
        key = None if token is None else self._find(
            document['id'], pool_id, member_id, token, host, end.bits)
        if token is None or key is None:
            return  # No listener has the pool.
        member['token'] = token
        member['tunnel'] = {
            'address': end.address, 'encapsulation': end.encapsulation,
            'key': key, 'mtu': min(port.mtu, end.mtu)}

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
        if document['flavor'].get('second_chance'):
            tunnel['takes_alternative'] = True
            tunnel['mtu'] = min(port.mtu, end.mtu - tunnels.alternative_length(
                end.address))
        if others:
            tunnel['additional_keys'] = dict(zip(
                spec.vips(document)[1:], others, strict=True))
        return tunnel

    def _keys_of(self, document: spec.Document, pool_id: str, member_id: str,
                 vip: str, host: str, bits: int) -> dict[str, int]:
        """Return listener id → key of a member on a hypervisor."""
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
        """Return member id → error that its hypervisor reported."""
        return {key: f'hypervisor {decided.hosts[0]}: {row.error}'
                for key, decided in decisions.items()
                if decided.hosts and decided.port is not None
                and (row := self.object_of(decided.hosts[0], decided.port.id))
                and row.error}


def _set_patience(member: spec.Member, decided: decision.Decision,
                  patience: int | None) -> None:
    """Set a member's patience, even if the tunnel is still the old one.

    It stays as it is while Neutron does not tell where the port is.
    """
    if 'tunnel' not in member or decided.way != decision.TUNNEL:
        return
    member['tunnel'].pop('patience', None)
    if patience:
        member['tunnel']['patience'] = patience
