# SPDX-License-Identifier: Apache-2.0
"""Documents of a hypervisor, as the agent caches and parses them.

The controller sends the kind beside each document; the cache stores it inside
the document, in the field ``KIND``.
"""

import collections.abc
import typing

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import host_spec

KIND = 'kind'


class Parsed(typing.NamedTuple):
    """Exactly one of the fields is set."""

    port: host_spec.Port | None = None
    address_set: host_spec.AddressSet | None = None


def kept(entry: collections.abc.Mapping[str, typing.Any]
         ) -> dict[str, typing.Any]:
    """Return what the cache stores for a host_messages.Entry."""
    return {KIND: entry['kind'], **entry['document']}


def is_port(document: collections.abc.Mapping[str, typing.Any]) -> bool:
    return document.get(KIND) == host_spec.PORT


def parse(key: str, kept_document: collections.abc.Mapping[str, typing.Any]
          ) -> Parsed:
    """:raises Refused: the document is malformed or of a newer version."""
    document: typing.Any = {name: value for name, value
                            in kept_document.items() if name != KIND}
    kind = str(kept_document.get(KIND))
    host_spec.check(kind, document)
    if document['id'] != key:
        raise errors.Refused('id', f'the document of {key} has the id '
                             f'{document["id"]}', 'send it under its own')
    if kind == host_spec.PORT:
        return Parsed(port=document)
    return Parsed(address_set=document)
