# SPDX-License-Identifier: Apache-2.0
"""Tables of supported operations and options, from the driver's own data.

``.. xdp-operations::`` renders ``operations.py``, which asks the driver,
``.. xdp-support:: listener`` ``driver/support.py``'s SUPPORT of one
kind of object, ``.. xdp-flavor-keys::`` the KEYS of ``contracts/flavor.py``.
What a check accepts is found out by asking it, so that the table says what the
driver says. A check without a question here stops the build.
"""

import ipaddress

from docutils import nodes
from docutils.parsers.rst import Directive
import operations

from octavia_xdp_provider.api import policy
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import zone
from octavia_xdp_provider.driver import support

# Names by which objects refer to each other; users don't set them.
IDENTITY = {'loadbalancer_id', 'listener_id', 'pool_id', 'member_id',
            'healthmonitor_id', 'project_id'}
CHILDREN = {'listeners', 'pools', 'members', 'healthmonitor', 'default_pool'}

POLICY = policy.ApiPolicy(address_policy.AddressPolicy(
    (ipaddress.ip_network('203.0.113.0/24'),),
    (ipaddress.ip_network('127.0.0.0/8'),),
    member_networks=(ipaddress.ip_network('198.51.100.0/24'),
                     ipaddress.ip_network('2001:db8::/32'))))
# Values that a check refuses, by the check's name.
QUESTIONS = {
    'one_of': ['?'],
    'protocol': ['HTTP'],
    'algorithm': ['?'],
    'session_persistence': [
        {'type': 'HTTP_COOKIE'}, {'cookie_name': 'x'},
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
}


def _answers(check):
    """What the check says to values that it refuses."""
    name = check.__qualname__.partition('.')[0]
    for value in QUESTIONS[name]:
        why, instead, *_ = check(value, POLICY)
        yield instead if value == '?' else f'{why}; {instead}'


def _word(rule):
    if isinstance(rule, support.Refuse):
        return 'refused'
    if isinstance(rule, support.NoEffect):
        return 'no effect'
    return 'in part' if rule.check else 'done'


def _note(rule):
    if isinstance(rule, support.Refuse):
        defaults = [str(value) for value in rule.unless
                    if value not in support.Refuse.unless]
        if rule.default:
            defaults.append('Octavia\'s default for a null in a change')
        accepted = (f' Accepted without effect: {", ".join(defaults)}.'
                    if defaults else '')
        return f'{_sentence(rule.why)} {_sentence(rule.instead)}{accepted}'
    if isinstance(rule, support.NoEffect):
        return _sentence(rule.why)
    if rule.check is None:
        return ''
    answers = [*_answers(rule.check), *filter(None, ['; '.join(
        rule.beside or ())])]
    return ' '.join(_sentence(text) for text in answers)


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
    app.add_directive('xdp-flavor-keys', FlavorKeys)
    app.add_directive('xdp-zone-keys', ZoneKeys)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
