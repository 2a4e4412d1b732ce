# SPDX-License-Identifier: Apache-2.0
"""What each accepted row of the table of options does, seen on LB nodes.

For test_api_accepted, which asks for the values in rows.py. Its load balancer
has two listeners: that of the rows of listeners, at LISTENER, and one at POOL,
whose pool has the rows of pools, members and health monitors.
tests/unit/driver/test_rows.py finds an accepted row that is missing here.
"""

from collections.abc import Callable
import dataclasses

from octavia_xdp_provider.contracts import expected_codes
from octavia_xdp_provider.contracts import persistence
from octavia_xdp_provider.node import types
from octavia_xdp_provider.tests.e2e.support import rows

LISTENER = rows.ROWS['listener']['protocol_port'].first
POOL = LISTENER + 1


@dataclasses.dataclass(frozen=True)
class OnNodes:
    """Each node has what the row says.

    :param found: says from a node_view.NodeView what a node has.
    :param wanted: says, from what was asked of the object, what it must be;
        the row's own value if None.
    """

    found: Callable
    wanted: Callable | None = None


@dataclasses.dataclass(frozen=True)
class Shown:
    """Octavia shows it, and it changes nothing on nodes: ``why``."""

    why: str


@dataclasses.dataclass(frozen=True)
class ProvedBy:
    """Another test looks at the nodes: its name below tests/e2e/tenant."""

    test: str


NAME = Shown('for people')
KINDS_OF_VIPS = ProvedBy(
    'test_api_accepted.TestVips.'
    'test_a_vip_of_a_subnet_of_a_network_and_of_a_port_is_announced')


def _settings(port):
    return lambda node: node.listener(port).settings


def _is_there(port):
    return lambda node: node.listener(port) is not None


def _hashed_by_source(node):
    return bool(_settings(LISTENER)(node).flags & types.ServiceFlag.SOURCE)


def _persistence(node):
    settings = _settings(POOL)(node)
    return (bool(settings.flags & types.ServiceFlag.SOURCE),
            settings.source_length_v4, settings.idle_timeout_s)


def _wanted_persistence(asked):
    given = asked['session_persistence']
    return (True,
            persistence.prefix(given['persistence_granularity'])[1],
            given['persistence_timeout'])


def _flavor(node):
    settings = _settings(LISTENER)(node)
    return {'encapsulation': settings.encapsulation.name.lower(),
            'new_flow_rate': settings.new_flow_rate,
            'new_flow_burst': settings.new_flow_burst,
            'member_port': 'rewrite' if node.member(POOL)[0][1] else 'same'}


def _member(column):
    return lambda node: node.member(POOL)[1][column]


# Of all flows, a listener's are remembered for the longer of the two.
TIMEOUT = OnNodes(
    lambda node: _settings(LISTENER)(node).idle_timeout_s,
    lambda asked: max(asked['timeout_client_data'],
                      asked['timeout_member_data']) // 1000)


def _check(name, *more, wanted=None):
    def found(node):
        check, = node.checks
        for field in (name, *more):
            check = check[field]
        return check
    return OnNodes(found, wanted)


EFFECTS = {
    'loadbalancer': {
        'name': NAME, 'description': NAME,
        'admin_state_up': OnNodes(lambda node: bool(node.listeners)),
        'vip_address': OnNodes(lambda node: {
            vip for vip in node.vips if ':' not in vip},
            lambda asked: {asked['vip_address']}),
        'additional_vips': OnNodes(lambda node: {
            vip for vip in node.vips if ':' in vip}),
        'vip_network_id': KINDS_OF_VIPS, 'vip_port_id': KINDS_OF_VIPS,
        'vip_subnet_id': KINDS_OF_VIPS,
        'flavor': OnNodes(_flavor),
        'availability_zone': ProvedBy(
            'test_placement.TestZones.'
            'test_a_load_balancer_is_on_nodes_of_its_zone_only'),
    },
    'listener': {
        'name': NAME, 'description': NAME,
        'admin_state_up': OnNodes(_is_there(LISTENER)),
        'protocol': OnNodes(lambda node: node.listener(LISTENER).protocol),
        'protocol_port': OnNodes(lambda node: next(
            port for _vip, port in node.listeners if port == LISTENER)),
        'default_pool_id': OnNodes(lambda node: node.member(LISTENER)[0][0]),
        'allowed_cidrs': OnNodes(
            lambda node: sorted(node.listener(LISTENER).allowed),
            lambda asked: sorted(asked['allowed_cidrs'])),
        'timeout_client_data': TIMEOUT, 'timeout_member_data': TIMEOUT,
        'timeout_member_connect': Shown('a packet forwarder connects nowhere'),
        'timeout_tcp_inspect': Shown('nothing waits for contents'),
    },
    'pool': {
        'name': NAME, 'description': NAME,
        'admin_state_up': OnNodes(_is_there(POOL)),
        'protocol': OnNodes(lambda node: node.listener(POOL).protocol),
        # Of the first listener's pool: persistence would hide it.
        'lb_algorithm': OnNodes(
            _hashed_by_source,
            lambda asked: asked['lb_algorithm'] == 'SOURCE_IP'),
        'session_persistence': OnNodes(_persistence, _wanted_persistence),
    },
    'member': {
        'name': NAME,
        'address': OnNodes(lambda node: node.member(POOL)[0][0]),
        'protocol_port': OnNodes(lambda node: node.member(POOL)[0][1]),
        'weight': OnNodes(_member(0)), 'backup': OnNodes(_member(1)),
        'admin_state_up': OnNodes(_member(2)),
        'subnet_id': Shown('members are reached by routing'),
        'monitor_address': _check('address'), 'monitor_port': _check('port'),
    },
    'healthmonitor': {
        'name': NAME,
        'admin_state_up': OnNodes(
            lambda node: (bool(node.checks), _member(3)(node)),
            lambda asked: (asked['admin_state_up'],) * 2),
        'type': _check('type', wanted=lambda asked: asked['type'].lower()),
        'delay': _check('delay'), 'timeout': _check('timeout'),
        'max_retries': _check('rise'), 'max_retries_down': _check('fall'),
        'http_method': _check('http', 'method'),
        'url_path': _check('http', 'path'),
        'expected_codes': _check(
            'http', 'expected_codes', wanted=lambda asked: [
                list(codes) for codes in expected_codes.parse(
                    asked['expected_codes'])]),
        'http_version': _check('http', 'version', wanted=lambda asked: str(
            asked['http_version'])),
        'domain_name': _check('http', 'host'),
    },
    'l7policy': {}, 'l7rule': {},
}
