# SPDX-License-Identifier: Apache-2.0
"""Differences of rules, address sets, networks and settings, as texts."""

import collections
import collections.abc
import ipaddress
import typing

from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.host import types

# Fields of types.Settings; timeouts are the library's own.
_SETTINGS = {'reply_ifindex': 'the interface by which answers leave',
             'local_v4': 'the address for Geneve', 'local_v6':
             'the IPv6 address for Geneve', 'sid': 'the network of SIDs'}
_EVERYBODY = {4: '0.0.0.0/0', 6: '::/0'}
# How many networks a text names.
_NAMED_MAX = 3

Texts = collections.abc.Iterator[str]


def of_rules(wanted: collections.abc.Iterable[types.Rule],
             held: collections.abc.Iterable[types.Rule],
             set_ids: collections.abc.Mapping[int, str]) -> Texts:
    """Yield differences of a port's rules.

    :param set_ids: ids of address sets, by number.
    """
    should = collections.Counter(map(_canonical, wanted))
    has = collections.Counter(map(_canonical, held))
    for text, some in (('is wanted, and not there', should - has),
                       ('is there, and not wanted', has - should)):
        for rule in sorted(some.elements(), key=str):
            yield f'the rule "{rule_words(rule, set_ids)}" {text}'


def _canonical(rule: types.Rule) -> types.Rule:
    """Return the rule as the library lists it."""
    if rule.address_set:
        return rule._replace(remote=None)
    return rule._replace(remote=_network(
        rule.remote or _EVERYBODY[rule.family]))


def rule_words(rule: types.Rule,
               set_ids: collections.abc.Mapping[int, str]) -> str:
    first, last = rule.ports
    ports = str(first) if first == last else f'{first}-{last}'
    remote = rule.remote or (
        f'group {set_ids.get(rule.address_set, rule.address_set)}')
    return (f'{rule.protocol or "any protocol"} to ports {ports} from '
            f'{remote} (IPv{rule.family})')


def of_sets(wanted: collections.abc.Mapping[str,
                                            collections.abc.Iterable[str]],
            numbers: collections.abc.Callable[[str], int | None],
            held: collections.abc.Mapping[int, set[str]]
            ) -> collections.abc.Iterator[tuple[str, str]]:
    """Yield (id, difference) of address sets; the id of an unwanted set is ''.

    :param wanted: networks by id.
    """
    known = set()
    for key, networks in sorted(wanted.items()):
        number = numbers(key)
        known.add(number)
        should = set(map(_network, networks))
        has = held.get(number, set()) if number is not None else set()
        for text in of_lists(should, has):
            yield key, text
    for number in sorted(held.keys() - known):
        yield '', (f'there are {len(held[number])} networks of a group that '
                   f'is not wanted (number {number})')


def of_lists(should: collections.abc.Set[str], has: collections.abc.Set[str]
             ) -> Texts:
    for text, some in (('missing', should - has),
                       ('not wanted', has - should)):
        if some:
            named = ', '.join(sorted(some)[:_NAMED_MAX])
            more = f' and {len(some) - _NAMED_MAX} more' if (
                len(some) > _NAMED_MAX) else ''
            yield f'networks that are {text}: {named}{more}'


def of_networks(common: host_spec.Common | None,
                held: collections.abc.Set[str]) -> Texts:
    """Yield differences of LB nodes' networks.

    :param common: None before a controller has answered.
    """
    if common is None:
        yield ('nothing is known of LB nodes: no controller has said which '
               'networks they are in')
        return
    for text in of_lists({_network(net) for net in common['networks']}, held):
        yield f'of LB nodes: {text}'


def of_proxies(common: host_spec.Common | None,
               held: collections.abc.Set[str]) -> Texts:
    """Yield differences of proxy nodes' networks.

    :param common: None before a controller has answered.
    """
    wanted = common.get('proxies', []) if common else []
    for text in of_lists({_network(net) for net in wanted}, held):
        yield f'of proxy nodes: {text}'


def of_peers(common: host_spec.Common | None,
             held: collections.abc.Set[str]) -> Texts:
    """Yield differences of hypervisors' networks.

    :param common: None before a controller has answered.
    """
    wanted = common['peers'] if common else []
    for text in of_lists({_network(peer) for peer in wanted}, held):
        yield f'of hypervisors: {text}'


def of_settings(wanted: types.Settings, held: types.Settings) -> Texts:
    for name, words in _SETTINGS.items():
        should, has = getattr(wanted, name), getattr(held, name)
        if _canonical_address(should) != _canonical_address(has):
            yield (f'{words} is {has or "none"}, and {should or "none"} is '
                   'wanted')


def _canonical_address(value: typing.Any) -> typing.Any:
    return str(ipaddress.ip_address(value)) if isinstance(value, str) and (
        value) else value


def _network(text: str) -> str:
    return str(ipaddress.ip_network(text, strict=False))
