# SPDX-License-Identifier: Apache-2.0
"""Changes of L7 policies, and documents compared with what Octavia has.

The functional tests compare both with Octavia itself.
"""

import copy

from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import comparison
from octavia_xdp_provider.tests.unit import base

RULE = {'type': 'PATH', 'compare_type': 'EQUAL_TO', 'value': '/a'}


def change(kind, action, key, parent, /, **fields):
    return {'object': kind, 'action': action, 'object_id': key,
            changes.PARENTS[kind]: parent, 'fields': fields}


def apply(document, *applied):
    for item in applied:
        document = changes.apply(document, item)
    return document


def document(number=3):
    """Return a document whose listener has policies a, b, c, …, in order."""
    return apply(base.document(), *(
        change('l7policy', 'create', key, 'listener', action='REJECT',
               position=position)
        for position, key in enumerate('abcdef'[:number], 1)))


def policies(document):
    return document['listeners']['listener'].get('l7policies', {})


def order(document):
    """Return the policies' names by position."""
    numbered = {policy['position']: key
                for key, policy in policies(document).items()}
    assert sorted(numbered) == [*range(1, len(numbered) + 1)]
    return ''.join(numbered[position] for position in sorted(numbered))


class TestPositions(base.TestCase):

    def test_others_make_room(self):
        last = 2 ** 31 - 1
        for action, key, fields, expected in (
                ('create', 'x', {'action': 'REJECT', 'position': 1}, 'xabc'),
                ('create', 'x', {'action': 'REJECT', 'position': 3}, 'abxc'),
                ('create', 'x', {'action': 'REJECT', 'position': last},
                 'abcx'),
                ('update', 'a', {'position': 2}, 'bac'),
                ('update', 'a', {'position': last}, 'bca'),
                ('update', 'c', {'position': 1}, 'cab'),
                ('update', 'b', {'admin_state_up': False}, 'abc'),
                ('delete', 'a', {}, 'bc'), ('delete', 'x', {}, 'abc')):
            with self.subTest(action=action, key=key, fields=fields):
                self.assertEqual(expected, order(changes.apply(
                    document(), change('l7policy', action, key, 'listener',
                                       **fields))))

    def test_listener_without_policies_is_as_before(self):
        self.assertEqual(base.document(), apply(
            document(1), change('l7policy', 'delete', 'a', 'listener')))


class TestPolicies(base.TestCase):

    def test_new_action_resets_what_belonged_to_the_old_one(self):
        targets = {'redirect_pool_id': 'pool', 'redirect_url': 'http://a/',
                   'redirect_prefix': 'http://b/', 'redirect_http_code': 301}
        for action, kept in (
                ('REJECT', ()),
                ('REDIRECT_TO_POOL', ('redirect_pool_id',)),
                ('REDIRECT_TO_URL', ('redirect_url', 'redirect_http_code')),
                ('REDIRECT_PREFIX', ('redirect_prefix',
                                     'redirect_http_code'))):
            before = document()
            policies(before)['a'].update(targets)
            policy = policies(changes.apply(before, change(
                'l7policy', 'update', 'a', 'listener', action=action)))['a']
            self.assertEqual(
                {name: value if name in kept else None
                 for name, value in targets.items()},
                {name: policy[name] for name in targets}, action)

    def test_rules_are_created_changed_and_deleted(self):
        before = document(1)
        after = apply(before, change('l7rule', 'create', 'r', 'a', **RULE))
        self.assertEqual(
            {'r': {**RULE, 'admin_state_up': True, 'key': None,
                   'invert': False}}, policies(after)['a']['rules'])
        self.assertEqual({'rules': {}}, {
            'rules': policies(before)['a']['rules']})
        after = apply(after, change('l7rule', 'update', 'r', 'a',
                                    invert=True))
        self.assertTrue(policies(after)['a']['rules']['r']['invert'])
        self.assertEqual(before, apply(
            after, change('l7rule', 'delete', 'r', 'a')))

    def test_unknown_parents_and_objects_are_named(self):
        for name, applied in (
                ('listener x', change('l7policy', 'create', 'p', 'x')),
                ('l7policy x', change('l7policy', 'update', 'x', 'listener')),
                ('l7policy x', change('l7rule', 'create', 'r', 'x')),
                ('l7rule x', change('l7rule', 'update', 'x', 'a'))):
            error = self.assertRaises(errors.UnknownObject, changes.apply,
                                      document(), applied)
            self.assertEqual(name, str(error))
        for applied in (change('l7policy', 'delete', 'p', 'x'),
                    change('l7rule', 'delete', 'r', 'x')):
            self.assertEqual(document(), changes.apply(document(), applied))


class TestComparison(base.TestCase):

    def test_fields_that_only_one_of_both_has_are_differences(self):
        for kind, fields in (
                ('listeners', {'insert_headers': ['X-Forwarded-For']}),
                ('listeners', {'default_tls_container_ref': 'x'}),
                ('pools', {'tls_enabled': True})):
            other = base.document()
            for item in other[kind].values():
                item.update(fields)
            name, = fields
            for left, right in ((base.document(), other),
                                (other, base.document())):
                difference, = spec.differences(left, right)
                self.assertTrue(difference.endswith(f'.{name}'))

    def test_policies_and_rules_are_compared_field_by_field(self):
        ours = apply(document(), change('l7rule', 'create', 'r', 'a', **RULE))
        self.assertEqual([], spec.differences(ours, copy.deepcopy(ours)))
        for applied, expected in (
                (change('l7policy', 'update', 'b', 'listener', position=3),
                 ['l7policy b.position', 'l7policy c.position']),
                (change('l7rule', 'update', 'r', 'a', value='/b'),
                 ['l7rule r.value']),
                (change('l7rule', 'delete', 'r', 'a'), ['l7rule r']),
                (change('l7policy', 'delete', 'c', 'listener'),
                 ['l7policy c'])):
            self.assertEqual(expected, sorted(spec.differences(
                ours, changes.apply(ours, applied))))

    def test_what_is_being_deleted_counts_for_no_position(self):
        self.assertEqual('ac', order(comparison.without(
            document(), [('l7policy', 'b')])))
        with_rule = apply(document(), change('l7rule', 'create', 'r', 'a',
                                             **RULE))
        self.assertEqual(document(), comparison.without(
            with_rule, [('l7rule', 'r')]))
        self.assertEqual(base.document(), comparison.without(
            document(1), [('l7policy', 'a')]))

    def test_bundles_stay_with_their_references(self):
        ours, octavias = base.document(), base.document()
        ours['listeners']['listener'].update(
            default_tls_container_ref='old', default_tls_bundle='1' * 64,
            sni_container_refs=['x', 'y'], sni_bundles=['2' * 64, '3' * 64])
        ours['pools']['pool'].update(
            ca_tls_container_ref='ca', ca_bundle='4' * 64)
        octavias['listeners']['listener'].update(
            default_tls_container_ref='new', sni_container_refs=['x', 'y'])
        octavias['pools']['pool'].update(ca_tls_container_ref='ca')
        taken = spec.as_committed(ours, octavias)
        listener = taken['listeners']['listener']
        self.assertNotIn('default_tls_bundle', listener)
        self.assertEqual(['2' * 64, '3' * 64], listener['sni_bundles'])
        self.assertEqual('4' * 64, taken['pools']['pool']['ca_bundle'])
        self.assertEqual(
            ['listener listener.default_tls_container_ref'],
            spec.differences(ours, taken))
