# SPDX-License-Identifier: Apache-2.0
"""Documents of a hypervisor, as the agent keeps and reads them.

The controller says of which kind each is; in the cache the kind is a field of
the document, ``KIND``.
"""

import collections.abc
import typing

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import host_spec

KIND = 'kind'


class Parsed(typing.NamedTuple):
    """One of the two."""

    port: host_spec.Port | None = None
    address_set: host_spec.AddressSet | None = None


def kept(entry: collections.abc.Mapping[str, typing.Any]
         ) -> dict[str, typing.Any]:
    """What is kept of a host_messages.Entry."""
    return {KIND: entry['kind'], **entry['document']}


def is_port(document: collections.abc.Mapping[str, typing.Any]) -> bool:
    return document.get(KIND) == host_spec.PORT


def parse(key: str, kept_document: collections.abc.Mapping[str, typing.Any]
          ) -> Parsed:
    """:raises Refused: it is malformed, or of a newer version."""
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
