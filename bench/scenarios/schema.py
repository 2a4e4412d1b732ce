# SPDX-License-Identifier: Apache-2.0
"""JSON schemas of scenarios and suites."""

from typing import Any

from bench.scenarios import alone

# What a scenario can measure; those that need a bed have a module in
# bench.engine.kinds.
KINDS = ('max_rate', 'loss_free_rate', 'syn_flood', 'fixed_rate', 'timeline',
         'ecmp_share', 'requests', *alone.KINDS)
EVENTS = ('member_dies', 'member_added', 'health_changes', 'table_update',
          'node_stops', 'node_starts')

_NAME = {
    'type': 'string', 'pattern': '^[a-z][a-z0-9_]*$',
    'description': 'a name of small letters, digits and underscores'}
# bench/beds/schema.json defines names of beds.
_BED_NAME = {'type': 'string', 'minLength': 1}
_SIZE = {'type': 'integer', 'minimum': 62, 'maximum': 9014}
_COUNT = {'type': 'integer', 'minimum': 1}


def _mapping(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {'type': 'object', 'properties': properties,
            'required': list(required), 'additionalProperties': False}


_SOFTWARE = _mapping({'name': _NAME, 'configuration': {'type': 'object'}},
                     'name')

_SERVICES = _mapping({
    'vips': {'type': 'integer', 'minimum': 1, 'maximum': 16384},
    'family': {'enum': [4, 6]},
    'member_family': {'enum': [4, 6]},
    'port': {'type': 'integer', 'minimum': 1, 'maximum': 65535},
    'protocol': {'enum': ['tcp', 'udp']},
    'members': {'type': 'integer', 'minimum': 1, 'maximum': 1000},
})

_TRAFFIC = _mapping({
    'flows': {'type': 'integer', 'minimum': 0, 'maximum': 1 << 24},
    'sizes': {'anyOf': [
        _SIZE, {'const': 'imix'},
        {'type': 'array', 'minItems': 1, 'items': {
            'type': 'array', 'prefixItems': [_SIZE, _COUNT],
            'minItems': 2, 'maxItems': 2}}]},
    'kind': {'enum': ['established', 'opened', 'syn']},
    'protocol': {'enum': ['tcp', 'udp', 'quic']},
    'sources': {'type': 'string', 'format': 'network'},
})

_MEASURE = _mapping({
    'kind': {'enum': list(KINDS)},
    'seconds': {'type': 'number', 'exclusiveMinimum': 0, 'maximum': 3600},
    # Packets/s of the measured traffic.
    'rate': {'type': 'number', 'exclusiveMinimum': 0},
    # Packets/s of the flood.
    'flood_rate': {'type': 'number', 'exclusiveMinimum': 0},
    # Width of the final search interval, relative to the rate.
    'precision': {'type': 'number', 'exclusiveMinimum': 0,
                  'exclusiveMaximum': 1},
    'confirmations': {'type': 'integer', 'minimum': 0, 'maximum': 10},
    'client': _NAME,
    'connections': _COUNT,
    'bytes': {'type': 'integer', 'minimum': 0},
    'keep_alive': {'type': 'boolean'},
    # For kinds without a bed: bench/scenarios/alone.py.
    'settings': {'type': 'object'},
}, 'kind')

_EVENT = _mapping({
    'at': {'type': 'number', 'minimum': 0},
    'do': {'enum': list(EVENTS)},
    'node': _COUNT,
    'member': _COUNT,
    'services': {'type': 'integer', 'minimum': 0},
    'up': {'type': 'boolean'},
}, 'at', 'do')

_BED = {'anyOf': [_BED_NAME, _mapping(
    {'name': _BED_NAME, 'set': {'type': 'object'}}, 'name')]}

SCENARIO: dict[str, Any] = _mapping({
    'summary': {'type': 'string', 'minLength': 1},
    'bed': _BED,
    'software': _mapping(_SOFTWARE['properties']),
    'beside': {'type': 'array', 'items': _SOFTWARE},
    'services': _SERVICES,
    'traffic': _TRAFFIC,
    'measure': _MEASURE,
    'rounds': {'type': 'integer', 'minimum': 1, 'maximum': 1000},
    'events': {'type': 'array', 'items': _EVENT},
    'matrix': {
        'type': 'object', 'minProperties': 1,
        'additionalProperties': {'anyOf': [
            {'type': 'array', 'minItems': 1},
            {'type': 'object', 'minProperties': 1,
             'additionalProperties': {'type': 'object'}}]}},
    'leave_out': {'type': 'array', 'items': {'type': 'string'}},
}, 'summary', 'measure')

_PART = {'anyOf': [_NAME, _mapping({
    'scenario': _NAME,
    'only': {'type': 'array', 'items': {'type': 'string'}, 'minItems': 1},
    'rounds': {'type': 'integer', 'minimum': 1, 'maximum': 1000},
    'set': {'type': 'object'},
}, 'scenario')]}

SUITE: dict[str, Any] = _mapping({
    'summary': {'type': 'string', 'minLength': 1},
    'minutes': {'type': 'number', 'exclusiveMinimum': 0},
    'bed': _BED_NAME,
    'rounds': {'type': 'integer', 'minimum': 1, 'maximum': 1000},
    'scenarios': {'type': 'array', 'items': _PART, 'minItems': 1},
}, 'summary', 'scenarios')
