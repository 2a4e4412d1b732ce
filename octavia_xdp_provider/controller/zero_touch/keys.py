# SPDX-License-Identifier: Apache-2.0
"""The keys of hypervisors, found by what is asked of them.

The leader looks every second, so no question may walk over all keys: each
costs what it finds.
"""

from collections.abc import Iterable

from octavia_xdp_provider.controller.store import ways
from octavia_xdp_provider.controller.zero_touch import index

Name = tuple[str, int]  # host, key

# The unused_generation of a key whose load balancer is deleted: no node may
# have it any more.
NEVER = 2 ** 62


class Keys:
    """Keys by name. One is *used* until its quarantine begins, and *unused*
    while it is marked, and nodes may still have it."""

    def __init__(self, keys: Iterable[ways.Key] = ()) -> None:
        self._keys: dict[Name, ways.Key] = {}
        self._by_balancer = index.Index[str, Name]()
        self._by_host = index.Index[str, Name]()
        self._used_by_host = index.Index[str, Name]()
        self._used_by_port = index.Index[tuple[str, str], Name]()
        self._unused = index.Index[str, Name]()
        self._quarantined: set[Name] = set()
        for key in keys:
            self.put(key)

    def _values(self, key: ways.Key):
        """Each index, and what the key has there."""
        used = key.free_at is None
        unused = used and key.unused_generation is not None
        balancer, host = key.load_balancer_id, key.host
        return ((self._by_balancer, balancer), (self._by_host, host),
                (self._used_by_host, host if used else None),
                (self._used_by_port, (host, key.port_id) if used else None),
                (self._unused, balancer if unused else None))

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    def get(self, name: Name) -> ways.Key | None:
        return self._keys.get(name)

    def put(self, key: ways.Key) -> None:
        self.remove(key.name)
        self._keys[key.name] = key
        for there, value in self._values(key):
            there.add(value, key.name)
        if key.free_at is not None:
            self._quarantined.add(key.name)

    def remove(self, name: Name) -> None:
        key = self._keys.pop(name, None)
        if key is None:
            return
        for there, value in self._values(key):
            there.discard(value, name)
        self._quarantined.discard(name)

    def _of(self, names: Iterable[Name]) -> list[ways.Key]:
        return [self._keys[name] for name in sorted(names)]

    def of_balancer(self, load_balancer_id: str) -> list[ways.Key]:
        return self._of(self._by_balancer.names(load_balancer_id))

    def used_of_port(self, host: str, port_id: str) -> list[ways.Key]:
        return self._of(self._used_by_port.names((host, port_id)))

    def used_on(self, host: str) -> int:
        """How many keys of a hypervisor are used."""
        return len(self._used_by_host.names(host))

    def balancers_on(self, hosts: Iterable[str]) -> set[str]:
        """Load balancers with a key on one of these hypervisors."""
        return {self._keys[name].load_balancer_id for host in hosts
                for name in self._by_host.names(host)}

    def in_use_by(self) -> set[str]:
        """Load balancers with keys that are not marked as one's that is
        deleted. Walks over all."""
        return {key.load_balancer_id for key in self._keys.values()
                if key.unused_generation != NEVER and key.free_at is None}

    def unused_balancers(self) -> set[str]:
        return set(self._unused.values())

    def unused_of(self, load_balancer_id: str) -> list[ways.Key]:
        return self._of(self._unused.names(load_balancer_id))

    def quarantined(self) -> list[ways.Key]:
        return self._of(self._quarantined)
