# SPDX-License-Identifier: Apache-2.0
"""A BGP route: the announcement of one prefix to the routers."""

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
    """A prefix with its next hop and attributes.

    Routes are equal if routers are sent the same. Communities have no order,
    so they are sorted and without duplicates.

    :ivar next_hop: of the prefix's family; None: the node's own address in
        each session.
    :ivar communities: RFC 1997, as "65000:1".
    :ivar large_communities: RFC 8092, as "65000:1:2".
    :ivar med: RFC 4271, 5.1.4; None: no MED.
    :ivar local_preference: RFC 4271, 5.1.5, only sent in sessions within an
        AS; None: the speaker's default.
    :ivar as_path_prepend: additional copies of the node's AS in the path.
    :raises RouteError: a field is out of range or of another family.
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
        """Return a route from strings.

        :raises RouteError: BGP cannot carry one of the values.
        """
        return cls(
            parse_prefix(prefix),
            None if next_hop is None else _parse_next_hop(next_hop),
            _as_tuple('communities', communities),
            _as_tuple('large_communities', large_communities),
            med, local_preference, as_path_prepend)

    def attributes(self) -> dict[str, object]:
        """Return name → value of the attributes that are not defaults."""
        return {field.name: getattr(self, field.name)
                for field in dataclasses.fields(self)[2:]
                if getattr(self, field.name) != field.default}

    def __str__(self) -> str:
        parts = [f'{self.prefix}, next hop {self.next_hop or "self"}']
        for name, value in self.attributes().items():
            text = (' '.join(value) if isinstance(value, tuple) else value)
            parts.append(f'{name.replace("_", " ")} {text}')
        return ', '.join(parts)


def parse_prefix(prefix: str | Network) -> Network:
    """Return a prefix from a string; an address becomes a host route.

    :raises RouteError: it is not a prefix, or has host bits set.
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


def _as_tuple(field: str, values: collections.abc.Iterable[str]
              ) -> tuple[str, ...]:
    # A str is iterable too, but its characters are not communities.
    if isinstance(values, str) or not isinstance(
            values, collections.abc.Iterable):
        raise RouteError(field, f'{values!r} is not a list')
    return tuple(values)


def _communities(field: str, values: tuple[str, ...], parts: int,
                 part_max: int) -> tuple[str, ...]:
    """Return the values in canonical form, sorted by number and unique."""
    communities = set()
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
        communities.add(numbers)
    if len(communities) > COMMUNITIES_MAX:
        raise RouteError(field, f'{len(communities)} are more than '
                                f'{COMMUNITIES_MAX}')
    return tuple(':'.join(map(str, numbers))
                 for numbers in sorted(communities))


def _digits(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)
