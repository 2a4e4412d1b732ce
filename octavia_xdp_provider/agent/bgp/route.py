# SPDX-License-Identifier: Apache-2.0
"""A BGP route: what a node says to its routers of one prefix."""

import collections.abc
import dataclasses
import ipaddress

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Families of routes by IP version, as ExaBGP's configuration names them.
FAMILIES = {4: 'ipv4 unicast', 6: 'ipv6 unicast'}

# A route and all its attributes fit into one atomic write to a pipe.
COMMUNITIES_MAX = 32
AS_PATH_PREPEND_MAX = 16

# https://www.iana.org/assignments/bgp-well-known-communities
WELL_KNOWN_COMMUNITIES = {
    'graceful-shutdown': '65535:0',
    'blackhole': '65535:666',
    'no-export': '65535:65281',
    'no-advertise': '65535:65282',
    'no-export-subconfed': '65535:65283',
    'no-peer': '65535:65284',
}

_U16_MAX, _U32_MAX = 2 ** 16 - 1, 2 ** 32 - 1


class RouteError(ValueError):
    """A route that BGP cannot carry.

    :ivar field: the field of Route that is wrong.
    """

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f'{field}: {text}')
        self.field = field


@dataclasses.dataclass(frozen=True)
class Route:
    """A prefix, where it leads to, and its attributes.

    Routes are equal if routers are to be sent the same: communities have no
    order and are kept sorted, each once.

    :ivar next_hop: of the prefix's family; None: the node's own address in
        each session.
    :ivar communities: RFC 1997, as "65000:1".
    :ivar large_communities: RFC 8092, as "65000:1:2".
    :ivar med: RFC 4271, 5.1.4; None: without.
    :ivar local_preference: RFC 4271, 5.1.5, sent in sessions within one AS
        only; None: the speaker's default there.
    :ivar as_path_prepend: how often the node's AS stands in the path beyond
        the once that BGP asks for.
    :raises RouteError: a field is out of its range or of another family.
    """

    prefix: Network
    next_hop: Address | None = None
    communities: tuple[str, ...] = ()
    large_communities: tuple[str, ...] = ()
    med: int | None = None
    local_preference: int | None = None
    as_path_prepend: int = 0

    def __post_init__(self) -> None:
        _check_next_hop(self.prefix, self.next_hop)
        for field, parts, part_max in (
                ('communities', 2, _U16_MAX),
                ('large_communities', 3, _U32_MAX)):
            object.__setattr__(self, field, _communities(
                field, getattr(self, field), parts, part_max))
        _check_number('med', self.med, _U32_MAX)
        _check_number('local_preference', self.local_preference, _U32_MAX)
        _check_number('as_path_prepend', self.as_path_prepend,
                      AS_PATH_PREPEND_MAX)
        if self.as_path_prepend is None:
            raise RouteError('as_path_prepend', 'is missing, 0 is none')

    @classmethod
    def parse(cls, prefix: str | Network,
              next_hop: str | Address | None = None,
              communities: collections.abc.Iterable[str] = (),
              large_communities: collections.abc.Iterable[str] = (),
              med: int | None = None, local_preference: int | None = None,
              as_path_prepend: int = 0) -> 'Route':
        """A route from texts.

        :raises RouteError: one of them says nothing that BGP can carry.
        """
        return cls(
            parse_prefix(prefix),
            None if next_hop is None else _parse_next_hop(next_hop),
            _words('communities', communities),
            _words('large_communities', large_communities),
            med, local_preference, as_path_prepend)

    def attributes(self) -> dict[str, object]:
        """Name → value of what goes beyond prefix and next hop."""
        return {field.name: getattr(self, field.name)
                for field in dataclasses.fields(self)[2:]
                if getattr(self, field.name) != field.default}

    def __str__(self) -> str:
        words = [f'{self.prefix}, next hop {self.next_hop or "self"}']
        for name, value in self.attributes().items():
            text = (' '.join(value) if isinstance(value, tuple) else value)
            words.append(f'{name.replace("_", " ")} {text}')
        return ', '.join(words)


def parse_prefix(prefix: str | Network) -> Network:
    """A prefix from its text, an address alone being one of full length.

    :raises RouteError: it is none, or has bits beyond its length.
    """
    try:
        return ipaddress.ip_network(prefix)
    except ValueError as error:
        raise RouteError('prefix', str(error)) from error


def _parse_next_hop(next_hop: str | Address) -> Address:
    try:
        return ipaddress.ip_address(next_hop)
    except ValueError as error:
        raise RouteError('next_hop', str(error)) from error


def _check_next_hop(prefix: Network, next_hop: Address | None) -> None:
    if next_hop is None:
        return
    if next_hop.version != prefix.version:
        raise RouteError('next_hop', f'{next_hop} is of another family than '
                                     f'{prefix}')
    if next_hop.is_unspecified or next_hop.is_multicast:
        raise RouteError('next_hop', f'{next_hop} is no address of a host')


def _check_number(field: str, value: object, largest: int) -> None:
    if value is None:
        return
    if (not isinstance(value, int) or isinstance(value, bool)
            or not 0 <= value <= largest):
        raise RouteError(field, f'{value!r} is not a number between 0 and '
                                f'{largest}')


def _words(field: str, values: collections.abc.Iterable[str]
           ) -> tuple[str, ...]:
    # A text is iterable, too, and its letters are no communities.
    if isinstance(values, str) or not isinstance(
            values, collections.abc.Iterable):
        raise RouteError(field, f'{values!r} is not a list')
    return tuple(values)


def _communities(field: str, values: tuple[str, ...], parts: int,
                 part_max: int) -> tuple[str, ...]:
    """Sorted by number, each once and in its shortest spelling."""
    found = set()
    for value in values:
        text = WELL_KNOWN_COMMUNITIES.get(value, value) if parts == 2 else (
            value)
        try:
            numbers = tuple(_digits(part) for part in text.split(':'))
        except (AttributeError, ValueError):
            numbers = ()
        if len(numbers) != parts or max(numbers) > part_max:
            raise RouteError(
                field, f'{value!r} is not {parts} numbers up to {part_max} '
                       'with colons between them')
        found.add(numbers)
    if len(found) > COMMUNITIES_MAX:
        raise RouteError(field, f'{len(found)} are more than '
                                f'{COMMUNITIES_MAX}')
    return tuple(':'.join(map(str, numbers)) for numbers in sorted(found))


def _digits(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)
