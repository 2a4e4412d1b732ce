# SPDX-License-Identifier: Apache-2.0
"""Tables of supported operations and options, from the driver's own data.

``.. xdp-tiers::`` renders what contracts/tiers.py says of some listeners,
``.. xdp-operations::`` ``operations.py``, which asks the driver,
``.. xdp-support:: listener`` ``driver/support.py``'s SUPPORT of one
kind of object, ``.. xdp-flavor-keys::`` the KEYS of ``contracts/flavor.py``.
What a check accepts is found out by asking it, so that the table says what the
driver says. A check without a question here stops the build.
"""

import dataclasses
import ipaddress

from docutils import nodes
from docutils.parsers.rst import Directive
import operations

from octavia_xdp_provider.api import policy
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.contracts import zone
from octavia_xdp_provider.driver import support

# Names by which objects refer to each other; users don't set them.
IDENTITY = {'loadbalancer_id', 'listener_id', 'pool_id', 'member_id',
            'healthmonitor_id', 'l7policy_id', 'l7rule_id', 'project_id'}
CHILDREN = {'listeners', 'pools', 'members', 'healthmonitor', 'default_pool',
            'rules'}

POLICY = policy.ApiPolicy(address_policy.AddressPolicy(
    (ipaddress.ip_network('203.0.113.0/24'),),
    (ipaddress.ip_network('127.0.0.0/8'),),
    member_networks=(ipaddress.ip_network('198.51.100.0/24'),
                     ipaddress.ip_network('2001:db8::/32'))))
# Values that a check refuses, by the check's name.
QUESTIONS = {
    'one_of': ['?'],
    'algorithm': ['?'],
    'session_persistence': [
        {'cookie_name': 'x'},
        {'type': 'HTTP_COOKIE', 'persistence_timeout': 10},
        {'type': 'APP_COOKIE', 'cookie_name': 'a b'},
        {'persistence_timeout': 5},
        {'persistence_granularity': '192.0.2.1'}],
    'vip': ['192.0.2.1', '::ffff:203.0.113.1'],
    'additional_vips': [[{'ip_address': '192.0.2.1'}]],
    'subnet': ['name'],
    'zone': [{'unknown': 1}],
    'http_method': ['DELETE'],
    'member_address': ['192.0.2.1', '127.0.0.1', '203.0.113.1',
                       '64:ff9b::c000:201', '::ffff:192.0.2.1',
                       '2001:db8::1%eth0'],
    'allowed_cidrs': [['::ffff:192.0.2.0/120'],
                      ['192.0.2.0/24'] * (fields.ALLOWED_CIDRS_MAX + 1)],
    'connection_limit': [0],
    'http_version': [2.0],
    'url_path': ['/ä'],
    'domain_name': ['ä'],
    'seconds': [0],
    'codes': ['99'],
    'flavor': [{'unknown': 1}],
    'inserted_headers': [['?']],
    'alpn_protocols': [['?']],
    'ciphers_problem': ['?'],
    'versions_problem': [['SSLv3'], ['TLSv1.1', 'TLSv1.3']],
    'url_problem': ['ftp://192.0.2.1/', 'https://example.com/ä'],
    'text_problem': ['\n'],
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A listener: ``text``, and what it and its pool differ in from one of
    TCP that LB nodes serve."""

    text: str
    listener: dict = dataclasses.field(default_factory=dict)
    pool: dict = dataclasses.field(default_factory=dict)
    flavor: dict = dataclasses.field(default_factory=dict)


def _of(protocol, pool=None):
    return {'protocol': protocol}, {'protocol': pool or protocol}


CASES = (
    Case('of UDP or SCTP', *_of('UDP')),
    Case('of TCP or HTTPS, with SOURCE_IP_PORT or SOURCE_IP'),
    Case('the same, with the flavor\'s forwarding nat',
         flavor={'forwarding': 'nat'}),
    Case('the same, with the flavor\'s forwarding proxy',
         flavor={'forwarding': 'proxy'}),
    Case('of TCP or HTTPS, with ROUND_ROBIN or LEAST_CONNECTIONS',
         pool={'lb_algorithm': 'ROUND_ROBIN'}),
    Case('the same, served by the hash (algorithms_served_by_hash)',
         pool={'lb_algorithm': 'ROUND_ROBIN'},
         flavor={'algorithms_served_by_hash': ['ROUND_ROBIN']}),
    Case('of TCP or HTTPS, with a connection_limit',
         {'connection_limit': 100}),
    Case('the same, with the flavor\'s forwarding nat',
         {'connection_limit': 100}, flavor={'forwarding': 'nat'}),
    Case('of TCP or HTTPS, with a pool of PROXY or PROXYV2',
         *_of('TCP', 'PROXYV2')),
    Case('of TCP, with a pool of HTTP', *_of('TCP', 'HTTP')),
    Case('of TCP or HTTPS, with TLS to members', pool={'tls_enabled': True}),
    Case('of HTTP, TERMINATED_HTTPS or PROMETHEUS', *_of('HTTP')),
)


def served(case):
    """Return who serves a listener, and what its members see."""
    document = spec.document('lb', {
        'vip_address': '203.0.113.10', 'flavor': case.flavor,
        'listeners': {'listener': {
            'protocol': 'TCP', 'protocol_port': 80, 'default_pool_id': 'pool',
            **case.listener}},
        'pools': {'pool': {'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP_PORT',
                           **case.pool}}})
    if tiers.tier(document, 'listener') == tiers.PROXY:
        return 'proxy nodes', (
            'an address of a proxy node; the client\'s is in what the PROXY '
            'protocol or X-Forwarded-For says')
    return 'LB nodes', ('an address of an LB node\'s pool'
                        if flavor.is_nat(case.flavor)
                        else 'the client\'s address')


def _answers(check):
    """What the check says to values that it refuses."""
    name = check.__qualname__.partition('.')[0]
    for value in QUESTIONS[name]:
        why, instead, *_ = check(value, POLICY)
        yield instead if value in ('?', ['?']) else f'{why}; {instead}'


def _word(rule):
    if isinstance(rule, support.Refuse):
        return 'refused'
    return ('in part' if rule.check else 'done') + (
        f', by {rule.by}' if rule.by else '')


def _note(rule):
    if isinstance(rule, support.Refuse):
        defaults = [str(value) for value in rule.unless
                    if value not in support.Refuse.unless]
        accepted = (f' Accepted without effect: {", ".join(defaults)}.'
                    if defaults else '')
        return f'{_sentence(rule.why)} {_sentence(rule.instead)}{accepted}'
    texts = []
    if rule.only:
        texts.append('For listeners with protocol '
                     + ' or '.join(rule.only.protocols) + '.')
    if rule.check:
        texts += [_sentence(text) for text in _answers(rule.check)]
    return ' '.join(filter(None, [*texts, rule.note]))


def _sentence(text):
    return f'{text[0].upper()}{text[1:]}.'


def _literals(names):
    """The names, one below the other."""
    block = nodes.line_block()
    block += [nodes.line('', '', nodes.literal(text=name))
              for name in names]
    return block


class Table(Directive):
    """A table with a head."""

    def table(self, head, widths, rows):
        table = nodes.table()
        group = nodes.tgroup(cols=len(head))
        group += [nodes.colspec(colwidth=width) for width in widths]
        group += nodes.thead('', self._row(head))
        group += nodes.tbody('', *map(self._row, rows))
        table += group
        return [table]

    @staticmethod
    def _row(cells):
        row = nodes.row()
        for cell in cells:
            if not isinstance(cell, nodes.Node):
                cell = nodes.paragraph(text=cell)
            row += nodes.entry('', cell)
        return row


class SupportTable(Table):
    """Options of one kind of object: done or refused."""

    required_arguments = 1

    def run(self):
        # Options of which the same is to be said share a row.
        names = {}
        for name, rule in support.SUPPORT[self.arguments[0]].items():
            if name not in IDENTITY and name not in CHILDREN:
                names.setdefault((_word(rule), _note(rule)), []).append(name)
        return self.table(
            ('Options', 'Support', 'Why, and what instead'), (30, 10, 60),
            [(_literals(some), *said) for said, some in names.items()])


class TierTable(Table):
    """Which nodes serve a listener, as contracts/tiers.py decides it."""

    def run(self):
        return self.table(
            ('A listener', 'Served by', 'Members see, as the source'),
            (50, 15, 35),
            [(case.text, *served(case)) for case in CASES])


class OperationTable(Table):
    """What the API can be asked for."""

    def run(self):
        return self.table(
            ('Object', 'Operation', 'Support', 'Remark'), (18, 22, 12, 48),
            [(row.kind, row.operation, row.support, row.text())
             for row in operations.ROWS])


class FlavorKeys(Table):
    """Keys of flavor profiles."""

    def run(self):
        return self.table(
            ('Key', 'Value', 'Default', 'Meaning'), (18, 26, 16, 40),
            [(_literals([name]), key.values, flavor.default(name),
              key.meaning) for name, key in flavor.KEYS.items()])


class ZoneKeys(Table):
    """Keys of availability zone profiles."""

    def run(self):
        return self.table(
            ('Key', 'Value', 'Meaning'), (18, 30, 52),
            [(_literals([name]), key.values, key.meaning)
             for name, key in zone.KEYS.items()])


def setup(app):
    app.add_directive('xdp-support', SupportTable)
    app.add_directive('xdp-operations', OperationTable)
    app.add_directive('xdp-tiers', TierTable)
    app.add_directive('xdp-flavor-keys', FlavorKeys)
    app.add_directive('xdp-zone-keys', ZoneKeys)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
