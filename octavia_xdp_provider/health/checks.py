# SPDX-License-Identifier: Apache-2.0
"""Health checks of a node, and their keys, which identify them on the node.

Their file format is described by ``contracts/checks.schema.json``; see
``health/checks_file.py``.
"""

from collections.abc import Mapping
import dataclasses
import functools
import hashlib
from importlib import resources
import ipaddress
import json
import re
from typing import Any

SCHEMA: dict[str, Any] = json.loads(
    resources.files('octavia_xdp_provider.contracts')
    .joinpath('checks.schema.json')
    .read_text(encoding='utf-8')
)
_SERVER_NAME: str = SCHEMA['$defs']['tls']['properties']['server_name'][
    'pattern'
]
_KEY_BYTES = 8
_KEYS_KNOWN = 1 << 16


@functools.lru_cache(1 << 16)
def _canonical(address: str) -> str:
    return str(ipaddress.ip_address(address))


@dataclasses.dataclass(frozen=True)
class HttpOptions:
    """The request of an HTTP check, and the status codes it accepts."""

    method: str = 'GET'
    path: str = '/'
    version: str = '1.0'
    host: str | None = None
    expected_codes: tuple[tuple[int, int], ...] = ((200, 200),)

    def as_dict(self) -> dict[str, Any]:
        return {
            'method': self.method,
            'path': self.path,
            'version': self.version,
            'host': self.host,
            'expected_codes': [list(r) for r in self.expected_codes],
        }


@dataclasses.dataclass(frozen=True)
class TlsOptions:
    """Contents of the ClientHello of an HTTPS or TLS-HELLO check."""

    server_name: str | None = None

    @classmethod
    def for_host(cls, host: str | None) -> 'TlsOptions':
        """Return options with a host as the server name, if it can be one.

        An address cannot, nor a text that is only valid in a Host header. The
        trailing dot of a name is not sent (RFC 6066, section 3).
        """
        if host is None:
            return cls()
        host = host.removesuffix('.')
        if len(host) > 253:
            return cls()
        return cls(host if re.fullmatch(_SERVER_NAME, host) else None)

    def as_dict(self) -> dict[str, Any]:
        return {'server_name': self.server_name}


@dataclasses.dataclass(frozen=True)
class Check:
    """One target and how it is probed; delay and timeout in seconds.

    A ping has no port: pings that differ only in the port are the same check.
    Packets of a check with a mark carry it (SO_MARK), so that the node can
    send checks of one address on different ways. Probes of a check with
    ``proxy_protocol`` begin with a header of that version.
    """

    type: str
    address: str
    port: int | None
    delay: int
    timeout: int
    rise: int = 3
    fall: int = 3
    http: HttpOptions | None = None
    tls: TlsOptions | None = None
    mark: int | None = None
    proxy_protocol: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the check as in the file, without its key."""
        fields: dict[str, Any] = {
            'type': self.type,
            'address': _canonical(self.address),
            'delay': self.delay,
            'timeout': self.timeout,
            'rise': self.rise,
            'fall': self.fall,
        }
        if self.type != 'ping':
            fields['port'] = self.port
        if self.mark is not None:
            fields['mark'] = self.mark
        if self.proxy_protocol is not None:
            fields['proxy_protocol'] = self.proxy_protocol
        if self.http is not None:
            fields['http'] = self.http.as_dict()
        if self.tls is not None:
            fields['tls'] = self.tls.as_dict()
        return fields

    @property
    def key(self) -> str:
        """The key, which is the same for equal checks."""
        return compute_key(self.as_dict())


@dataclasses.dataclass(frozen=True)
class Condition:
    """A conjunction of checks, given by their keys.

    A single check needs no condition: its own key serves.
    """

    checks: frozenset[str]

    def as_dict(self) -> dict[str, Any]:
        """Return the condition as in the file, without its key."""
        return {'checks': sorted(self.checks)}

    @property
    def key(self) -> str:
        """The key, which is the same for equal conditions."""
        return compute_key(self.as_dict())


@dataclasses.dataclass(frozen=True)
class Group:
    """Keys of checks and conditions that are guarded together.

    While less than ``panic_percent`` of them are not down, the health checker
    reports no further ones as down.
    """

    name: str
    keys: frozenset[str]
    panic_percent: int

    def as_dict(self) -> dict[str, Any]:
        """Return the group as in the file."""
        return {
            'name': self.name,
            'checks': sorted(self.keys),
            'panic_percent': self.panic_percent,
        }


def compute_key(check: Mapping[str, Any], secret: bytes = b'') -> str:
    """Compute the key of a check or condition of a document.

    :param secret: of the node; at most 64 bytes.
    """
    fields = {k: v for k, v in check.items() if k != 'key'}
    text = json.dumps(
        fields, sort_keys=True, separators=(',', ':'), ensure_ascii=True
    )
    digest = hashlib.blake2b(
        text.encode('ascii'), digest_size=_KEY_BYTES, key=secret
    ).hexdigest()
    # Zero is not a valid key; a digest of zero will never occur in practice.
    return digest if int(digest, 16) else '0' * 15 + '1'


class Keys:
    """Computes keys of checks and conditions on a node.

    Tenants choose what is checked. The node's secret keeps them from finding
    two checks with the same key.
    """

    def __init__(self, secret: bytes = b'') -> None:
        self._secret = secret
        self._known = functools.lru_cache(_KEYS_KNOWN)(self._compute)

    def of(self, check: Check | Condition) -> str:
        return self._known(check)

    def _compute(self, check: Check | Condition) -> str:
        return compute_key(check.as_dict(), self._secret)


UNKEYED = Keys()
