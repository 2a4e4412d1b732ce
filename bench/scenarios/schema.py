# SPDX-License-Identifier: Apache-2.0
"""JSON schemas of scenarios and suites."""

from typing import Any

from bench.declarations import shapes
from bench.scenarios import alone

# What a scenario can measure; those that need a bed have a module in
# bench.engine.kinds.
KINDS = ('max_rate', 'loss_free_rate', 'syn_flood', 'fixed_rate', 'timeline',
         'ecmp_share', 'requests', *alone.KINDS)
EVENTS = ('member_dies', 'member_added', 'health_changes', 'table_update',
          'node_stops', 'node_starts')

_NAME = shapes.pattern('^[a-z][a-z0-9_]*$',
                       'a name of small letters, digits and underscores')
# bench/beds/schema.py defines names of beds.
_BED_NAME = shapes.TEXT
_SIZE = shapes.whole(62, 9014)
_COUNT = shapes.whole(1)
_ROUNDS = shapes.whole(1, 1000)
_POSITIVE = {'type': 'number', 'exclusiveMinimum': 0}

_SOFTWARE = shapes.mapping(
    {'name': _NAME, 'configuration': shapes.ANY_MAPPING}, 'name')

_SERVICES = shapes.mapping({
    'vips': shapes.whole(1, 16384),
    'family': {'enum': [4, 6]},
    'member_family': {'enum': [4, 6]},
    'port': shapes.whole(1, 65535),
    'protocol': {'enum': ['tcp', 'udp']},
    'members': shapes.whole(1, 1000),
})

_TRAFFIC = shapes.mapping({
    'flows': shapes.whole(0, 1 << 24),
    'sizes': {'anyOf': [
        _SIZE, {'const': 'imix'},
        {'type': 'array', 'minItems': 1, 'items': {
            'type': 'array', 'prefixItems': [_SIZE, _COUNT],
            'minItems': 2, 'maxItems': 2}}]},
    'kind': {'enum': ['established', 'opened', 'syn']},
    'protocol': {'enum': ['tcp', 'udp', 'quic']},
    'sources': shapes.form('network'),
})

_MEASURE = shapes.mapping({
    'kind': {'enum': list(KINDS)},
    'seconds': {'type': 'number', 'exclusiveMinimum': 0, 'maximum': 3600},
    # Packets/s of the measured traffic.
    'rate': _POSITIVE,
    # Packets/s of the flood.
    'flood_rate': _POSITIVE,
    # Width of the final search interval, relative to the rate.
    'precision': {'type': 'number', 'exclusiveMinimum': 0,
                  'exclusiveMaximum': 1},
    'confirmations': shapes.whole(0, 10),
    'client': _NAME,
    'connections': _COUNT,
    'bytes': shapes.whole(0),
    'keep_alive': shapes.BOOLEAN,
    # For kinds without a bed: bench/scenarios/alone.py.
    'settings': shapes.ANY_MAPPING,
}, 'kind')

_EVENT = shapes.mapping({
    'at': {'type': 'number', 'minimum': 0},
    'do': {'enum': list(EVENTS)},
    'node': _COUNT,
    'member': _COUNT,
    'services': shapes.whole(0),
    'up': shapes.BOOLEAN,
}, 'at', 'do')

_BED = {'anyOf': [_BED_NAME, shapes.mapping(
    {'name': _BED_NAME, 'set': shapes.ANY_MAPPING}, 'name')]}

SCENARIO: dict[str, Any] = shapes.mapping({
    'summary': shapes.TEXT,
    'bed': _BED,
    'software': shapes.mapping(_SOFTWARE['properties']),
    'beside': {'type': 'array', 'items': _SOFTWARE},
    'services': _SERVICES,
    'traffic': _TRAFFIC,
    'measure': _MEASURE,
    'rounds': _ROUNDS,
    'events': {'type': 'array', 'items': _EVENT},
    'matrix': {
        'type': 'object', 'minProperties': 1,
        'additionalProperties': {'anyOf': [
            {'type': 'array', 'minItems': 1},
            {'type': 'object', 'minProperties': 1,
             'additionalProperties': shapes.ANY_MAPPING}]}},
    'leave_out': {'type': 'array', 'items': {'type': 'string'}},
}, 'summary', 'measure')

_PART = {'anyOf': [_NAME, shapes.mapping({
    'scenario': _NAME,
    'only': {'type': 'array', 'items': {'type': 'string'}, 'minItems': 1},
    'rounds': _ROUNDS,
    'set': shapes.ANY_MAPPING,
}, 'scenario')]}

SUITE: dict[str, Any] = shapes.mapping({
    'summary': shapes.TEXT,
    'minutes': _POSITIVE,
    'bed': _BED_NAME,
    'rounds': _ROUNDS,
    'scenarios': {'type': 'array', 'items': _PART, 'minItems': 1},
}, 'summary', 'scenarios')
