# SPDX-License-Identifier: Apache-2.0
"""Finds contradictions in a scenario."""

from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from bench.scenarios import alone
from bench.scenarios import model
from bench.software import catalog
from bench.traffic.clients import catalog as clients

_EVENTFUL = ('timeline', 'ecmp_share')
# Keys of "measure" besides kind and seconds, by kind: (required, optional).
KEYS: dict[str, tuple[set[str], set[str]]] = {
    'max_rate': (set(), set()),
    'loss_free_rate': (set(), {'precision', 'confirmations', 'rate'}),
    'syn_flood': ({'rate'}, {'flood_rate'}),
    'fixed_rate': ({'rate'}, set()),
    'timeline': ({'rate'}, set()),
    'ecmp_share': ({'rate'}, set()),
    'requests': (set(), {'client', 'connections', 'bytes', 'keep_alive'}),
    **{name: (set(), {'settings'}) for name in alone.KINDS},
}
# Keys of an event besides "at" and "do", by the value of "do".
_EVENT_KEYS = {
    'member_dies': {'member'}, 'member_added': set(),
    'health_changes': {'member', 'services', 'up'},
    'table_update': {'services'},
    'node_stops': {'node'}, 'node_starts': {'node'},
}
Mistake = tuple[tuple[str | int, ...], str]


def mistakes(variant: model.Variant, data: Mapping[str, Any],
             ) -> Iterator[Mistake]:
    """Yield (keys of the declaration, what is wrong).

    :param data: the declaration with the values of this variant.
    """
    declared = data['measure']
    kind = variant.measure.kind
    needed, known = KEYS[kind]
    for key in sorted(needed - set(declared)):
        yield ('measure',), f'kind {kind} needs "{key}"'
    for key in declared:
        if key not in needed | known | {'kind', 'seconds'}:
            yield (('measure', key),
                   f'"{key}" means nothing to kind {kind}, which has: '
                   + ', '.join(sorted(needed | known | {'seconds'})))
    yield from _about_events(variant, data)
    if variant.is_alone:
        yield from _about_a_part(variant, data)
    else:
        yield from _about_software(variant)
    client = variant.measure.client
    if client not in clients.KINDS:
        yield (('measure', 'client'), f'no client "{client}"; there are: '
               + ', '.join(sorted(clients.KINDS)))
    names = [variant.software.name, *(peer.name for peer in variant.beside)]
    for number, name in enumerate(names[1:]):
        if name in names[:number + 1]:
            yield ('beside', number), f'{name} is there twice'
    protocol = variant.traffic.protocol or variant.services.protocol
    if (protocol == 'tcp') != (variant.services.protocol == 'tcp'):
        yield (('traffic', 'protocol'),
               f'{protocol} is no traffic for services of '
               f'{variant.services.protocol}')
    if protocol != 'tcp' and variant.traffic.kind != 'established':
        yield (('traffic', 'kind'),
               f'{variant.traffic.kind} begins with SYNs, which {protocol} '
               'has not')


def _about_a_part(variant, data):
    kind = alone.KINDS[variant.measure.kind]
    for name, text in kind.mistakes(variant.measure.settings):
        yield ('measure', 'settings', name), text
    for key in sorted({'bed', 'services', 'traffic'} & set(data)):
        yield (key,), f'kind {variant.measure.kind} needs none'
    for software in variant.software, *variant.beside:
        if software.name not in kind.software or software.configuration:
            yield (('beside',), f'{software.name}: kind '
                   f'{variant.measure.kind} '
                   f'has {", ".join(kind.software)}, as they are')


def _about_software(variant):
    for keys, software in ((('software',), variant.software), *(
            (('beside', number), peer)
            for number, peer in enumerate(variant.beside))):
        for below, text in catalog.mistakes(software.name,
                                            software.configuration):
            yield (*keys, *below), text


def _about_events(variant, data):
    kind = variant.measure.kind
    if variant.events and kind not in _EVENTFUL:
        yield ('events',), f'kind {kind} has no events'
    if not variant.events and kind == 'timeline':
        yield ('measure',), 'kind timeline needs "events"'
    for number, event in enumerate(data.get('events', ())):
        for key in set(event) - {'at', 'do'} - _EVENT_KEYS[event['do']]:
            yield (('events', number, key),
                   f'"{key}" means nothing to {event["do"]}')
        yield from _about_event(variant, number, model.Event(**event))


def _about_event(variant, number, event):
    if variant.measure.kind == 'ecmp_share':
        if event.do not in ('node_stops', 'node_starts'):
            yield ('events', number), f'{event.do} is no event of nodes'
    elif event.at >= variant.measure.seconds:
        yield (('events', number),
               f'at {event.at} s nothing is sent any more: the '
               f'measurement takes {variant.measure.seconds} s')
    if event.services > variant.services.vips:
        yield (('events', number),
               f'{event.services} services: there are '
               f'{variant.services.vips}')
    most = variant.services.members
    if event.do in ('member_dies', 'health_changes') and (
            event.member > most):
        yield (('events', number),
               f'member {event.member}: services have {most}')
