# SPDX-License-Identifier: Apache-2.0
"""The keys of hypervisors, with indexes for all look-ups.

The leader makes look-ups every second, so their cost must depend on the number
of results, and not on the number of all keys.
"""

from collections.abc import Collection
from collections.abc import Iterable
from typing import Any

from octavia_xdp_provider.controller.store import ways
from octavia_xdp_provider.controller.zero_touch import index

Name = tuple[str, int]  # host, key

# The unused_generation of a key whose load balancer is deleted: the key is in
# use until no node has the load balancer any more.
NEVER = 2 ** 62


class Keys:
    """Keys by name.

    A key is *used* until its quarantine begins. It is *unused* as well while
    it is no longer needed but nodes may still have it.
    """

    def __init__(self, keys: Iterable[ways.Key] = ()) -> None:
        self._keys: dict[Name, ways.Key] = {}
        self._by_balancer = index.Index[str, Name]()
        self._by_host = index.Index[str, Name]()
        self._used_by_host = index.Index[str, Name]()
        self._used_by_port = index.Index[tuple[str, str], Name]()
        self._unused = index.Index[str, Name]()
        self._tokens = index.Index[str, Name]()
        self._quarantined: set[Name] = set()
        for key in keys:
            self.put(key)

    def _values(self, key: ways.Key
                ) -> tuple[tuple[index.Index[Any, Name], object], ...]:
        """Return each index with the key's value there."""
        used = key.free_at is None
        unused = used and key.unused_generation is not None
        balancer, host = key.load_balancer_id, key.host
        return ((self._by_balancer, balancer), (self._by_host, host),
                (self._used_by_host, host if used else None),
                (self._used_by_port, (host, key.port_id) if used else None),
                (self._unused, balancer if unused else None),
                (self._tokens, key.vip if key.is_of_proxies else None))

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    def get(self, name: Name) -> ways.Key | None:
        return self._keys.get(name)

    def put(self, key: ways.Key) -> None:
        self.remove(key.name)
        self._keys[key.name] = key
        for key_index, value in self._values(key):
            key_index.add(value, key.name)
        if key.free_at is not None:
            self._quarantined.add(key.name)

    def remove(self, name: Name) -> None:
        key = self._keys.pop(name, None)
        if key is None:
            return
        for key_index, value in self._values(key):
            key_index.discard(value, name)
        self._quarantined.discard(name)

    def _of(self, names: Iterable[Name]) -> list[ways.Key]:
        return [self._keys[name] for name in sorted(names)]

    def of_balancer(self, load_balancer_id: str) -> list[ways.Key]:
        return self._of(self._by_balancer.names(load_balancer_id))

    def used_of_port(self, host: str, port_id: str) -> list[ways.Key]:
        return self._of(self._used_by_port.names((host, port_id)))

    def used_on(self, host: str) -> int:
        """Return the number of a hypervisor's used keys."""
        return len(self._used_by_host.names(host))

    def balancers_on(self, hosts: Iterable[str]) -> set[str]:
        """Return the load balancers with a key on one of the hypervisors."""
        return {self._keys[name].load_balancer_id for host in hosts
                for name in self._by_host.names(host)}

    def in_use_by(self) -> set[str]:
        """Return the load balancers with used keys, except those known as
        deleted. Walks over all keys."""
        return {key.load_balancer_id for key in self._keys.values()
                if key.unused_generation != NEVER and key.free_at is None}

    def unused_balancers(self) -> set[str]:
        return set(self._unused.values())

    def unused_of(self, load_balancer_id: str) -> list[ways.Key]:
        return self._of(self._unused.names(load_balancer_id))

    def tokens(self) -> Collection[str]:
        """Return the addresses that are some member's token."""
        return self._tokens.values()

    def quarantined(self) -> list[ways.Key]:
        return self._of(self._quarantined)
