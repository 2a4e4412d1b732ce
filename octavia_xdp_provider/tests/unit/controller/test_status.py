# SPDX-License-Identifier: Apache-2.0
"""Operating statuses, and the tables of rules row by row."""

from unittest import mock

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.controller import status
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base

UP = {'m1': 'up', 'm2': 'up'}
DOWN = {'m1': 'down', 'm2': 'down'}


def node(host='a', members=None, **more):
    """Return a node that serves, with both members up."""
    return status.NodeView(host, **{
        'live': True, 'current': True, 'announced': True,
        'members': UP if members is None else members, **more})


def changed(**options):
    """Return a document with changed options of an object of each kind."""
    document = base.document()
    pool = document['pools']['pool']
    objects = {'loadbalancer': document, 'pool': pool,
               'listener': document['listeners']['listener'],
               'm1': pool['members']['m1'], 'm2': pool['members']['m2'],
               'healthmonitor': pool['healthmonitor']}
    for name, values in options.items():
        objects[name].update(values)
    return document


def without(*names):
    """Return a document without a health monitor, a pool or a listener."""
    document = base.document()
    for name in names:
        if name == 'healthmonitor':
            document['pools']['pool']['healthmonitor'] = None
        elif name == 'members':
            document['pools']['pool']['members'].clear()
        elif name == 'pool':
            document['pools'].clear()
            for listener in document['listeners'].values():
                listener['default_pool_id'] = None
        else:
            document['listeners'].clear()
    return document


def layer_7(served=True, weight=1, **options):
    """Return a document whose listener needs proxy nodes. A policy with a
    rule sends some requests to a pool of its own.

    :param served: whether LB nodes send the listener to node p.
    :param options: changed options by object.
    """
    document = base.document()
    listener = document['listeners']['listener']
    listener['protocol'] = document['pools']['pool']['protocol'] = 'HTTP'
    listener['l7policies'] = {'policy': spec.with_defaults('l7policy', {
        'action': 'REDIRECT_TO_POOL', 'redirect_pool_id': 'pool2',
        'position': 1, 'rules': {'rule': spec.with_defaults('l7rule', {
            'type': 'PATH', 'compare_type': 'STARTS_WITH', 'value': '/'})}})}
    document['pools']['pool2'] = spec.complete_pool(
        {'protocol': 'HTTP', 'lb_algorithm': 'ROUND_ROBIN'})
    document['proxies'] = {
        'nodes': {'p': {'addresses': ['192.0.2.1'], 'weight': weight}},
        'listeners': ['listener'] if served else []}
    policy = listener['l7policies']['policy']
    for name, values in options.items():
        {'loadbalancer': document, 'listener': listener, 'policy': policy,
         'rule': policy['rules']['rule'], **document['pools']
         }[name].update(values)
    return document


def proxy(host='p', members=None, **more):
    """Return a proxy node that serves, with both members up."""
    return node(host, members, **{'role': rows.PROXY, 'announced': None,
                                  **more})


OFF = {'admin_state_up': False}
REQUIRED = {'flavor': {'zero_touch': 'required'}}
DRAINED = {'weight': 0}

# kind → rule → (document, nodes) for which this rule decides.
CASES = {
    'member': {
        'disabled': (changed(m1=OFF), [node()]),
        'cannot be reached through its hypervisor, as the flavor requires': (
            changed(loadbalancer=REQUIRED, m1={'way': 'none'}), [node()]),
        'the way to it is not decided yet': (
            changed(loadbalancer=REQUIRED), [node()]),
        'no health monitor, weight 0': (
            changed(m1=DRAINED, healthmonitor=OFF), [node()]),
        'no health monitor, or a disabled one': (
            without('healthmonitor'), [node()]),
        'health not known to any node': (
            base.document(), [node(members={'m2': 'up'}),
                              node('b', {'m1': 'unknown'})]),
        'nodes disagree': (
            base.document(), [node(), node('b', {'m1': 'down'})]),
        'down': (changed(m1=DRAINED), [node(members=DOWN)]),
        'up, weight 0': (changed(m1=DRAINED), [node()]),
        'up': (base.document(), [node(), node('b', {})]),
    },
    'pool': {
        'disabled, or its load balancer is': (changed(pool=OFF), [node()]),
        'no enabled listener uses it': (changed(listener=OFF), [node()]),
        'no enabled members': (changed(m1=OFF, m2=OFF), [node()]),
        'all members OFFLINE': (base.document(), [node(members={})]),
        'all members ERROR or DRAINING': (
            changed(m1=DRAINED), [node(members={'m1': 'up', 'm2': 'down'})]),
        'all members ONLINE, NO_MONITOR or DRAINING': (
            changed(m1=DRAINED), [node()]),
        'anything else': (
            base.document(), [node(members={'m1': 'up', 'm2': 'down'})]),
    },
    'healthmonitor': {
        'disabled, or its pool or load balancer is': (
            changed(pool=OFF), [node()]),
        'enabled': (base.document(), [node()]),
    },
    'listener': {
        'disabled, or its load balancer is': (
            changed(loadbalancer=OFF), [node()]),
        'no LB node serves the load balancer': (base.document(), []),
        'it needs proxy nodes, and none serves it': (layer_7(), [node()]),
        'no pool': (without('pool'), [node()]),
        'all its pools have the same status': (base.document(), [node()]),
        'anything else': (layer_7(pool2=OFF), [node(), proxy()]),
    },
    'l7policy': {
        'disabled, or its listener or load balancer is': (
            layer_7(policy=OFF), [node(), proxy()]),
        'enabled': (layer_7(), [node(), proxy()]),
    },
    'l7rule': {
        'disabled, or its policy, listener or load balancer is': (
            layer_7(rule=OFF), [node(), proxy()]),
        'enabled': (layer_7(), [node(), proxy()]),
    },
    'loadbalancer': {
        'disabled': (changed(loadbalancer=OFF), [node()]),
        'no LB node serves it': (base.document(), [node(live=False)]),
        'all listeners ERROR': (base.document(), [node(members=DOWN)]),
        'all listeners OFFLINE': (base.document(), [node(members={})]),
        'some LB node or proxy node does not serve it, or has a problem': (
            base.document(), [node(), node('b', announced=False)]),
        'all listeners ONLINE, or none': (base.document(), [node()]),
        'anything else': (
            base.document(), [node(members={'m1': 'up', 'm2': 'down'})]),
    },
    'node': {
        'has not reported for longer than the node time-out': (
            base.document(), [node(live=False)]),
        'failed to apply the newest change': (
            base.document(), [node(error='map full')]),
        'has not applied the newest change in time': (
            base.document(), [node(current=False)]),
        'does not announce the VIP though a member, or a proxy node, takes '
        'flows': (
            base.document(), [node(announced=False)]),
        'a BGP session is down, no uplink can be used, the health checker '
        'does not answer, or another of its processes does not work': (
            base.document(), [node(problems=['1 of 2'])]),
        'anything else': (base.document(), [node()]),
    },
}
KEYS = {'member': 'm1', 'pool': 'pool', 'healthmonitor': 'hm',
        'listener': 'listener', 'loadbalancer': 'lb', 'l7policy': 'policy',
        'l7rule': 'rule'}
FAULTS = {'does not serve': 'ERROR', 'serves, with a problem': 'DEGRADED',
          'serves': 'ONLINE'}


class TestTables(base.TestCase):
    """Each row decides in the case of that row."""

    def decided(self, kind, document, nodes):
        """Return the rules that decided about one kind of object."""
        decisive = []
        original = status.first

        def recording(rules, facts):
            rule = original(rules, facts)
            if rules is status.TABLES[kind]:
                decisive.append(rule)
            return rule

        with mock.patch.object(status, 'first', recording):
            statuses = status.operating_statuses(document, nodes)
        return decisive, statuses

    def test_every_row_has_a_case(self):
        self.assertEqual(
            {kind: [rule.when for rule in rules]
             for kind, rules in status.TABLES.items()},
            {kind: list(CASES[kind]) for kind in status.TABLES})

    def test_every_row_decides_in_its_case(self):
        for kind, cases in CASES.items():
            for when, (document, nodes) in cases.items():
                decisive, statuses = self.decided(kind, document, nodes)
                rule = decisive[0]
                self.assertEqual(when, rule.when, kind)
                if kind == 'node':
                    self.assertEqual(FAULTS[rule.status],
                                     statuses['loadbalancer', 'lb'], when)
                elif rule.status:
                    self.assertEqual(rule.status,
                                     statuses[kind, KEYS[kind]], when)

    def test_last_row_of_each_table_always_holds(self):
        for kind, rules in status.TABLES.items():
            self.assertTrue(rules[-1].holds(None), kind)


class TestOperatingStatuses(base.TestCase):

    def of(self, document, *nodes, **more):
        return status.operating_statuses(document, nodes, **more)

    def balancer(self, *nodes, document=None, **more):
        return self.of(document or base.document(), *nodes, **more)[
            'loadbalancer', 'lb']

    def test_all_is_online_if_all_nodes_serve(self):
        statuses = self.of(base.document(), node(), node('b'))
        self.assertEqual({'ONLINE'}, set(statuses.values()))
        self.assertEqual(
            {('loadbalancer', 'lb'), ('listener', 'listener'),
             ('pool', 'pool'), ('member', 'm1'), ('member', 'm2'),
             ('healthmonitor', 'hm')}, set(statuses))

    def test_dead_nodes_are_an_error_whatever_they_reported(self):
        statuses = self.of(base.document(), node(live=False),
                           node('b', live=False))
        self.assertEqual('ERROR', statuses['loadbalancer', 'lb'])
        self.assertEqual('ERROR', statuses['listener', 'listener'])
        self.assertEqual('OFFLINE', statuses['pool', 'pool'])
        self.assertEqual('OFFLINE', statuses['member', 'm1'])

    def test_load_balancer_without_nodes_is_an_error(self):
        self.assertEqual('ERROR', self.balancer(
            document=without('listener', 'pool')))

    def test_faulty_node_degrades_the_load_balancer_alone(self):
        for fault in ({'live': False}, {'current': False},
                      {'error': 'map full'}, {'announced': False},
                      {'problems': ['1 of 2 BGP sessions are up']}):
            statuses = self.of(base.document(), node(), node('b', **fault))
            self.assertEqual('DEGRADED', statuses['loadbalancer', 'lb'], fault)
            self.assertEqual('ONLINE', statuses['listener', 'listener'], fault)

    def test_unannounced_vip_is_an_error(self):
        self.assertEqual('ERROR', self.balancer(
            node(announced=False), node('b', announced=False)))

    def test_vip_need_not_be_announced_without_members_that_are_up(self):
        for members, expected in (({}, 'OFFLINE'), (DOWN, 'ERROR')):
            statuses = self.of(base.document(),
                               node(members=members, announced=False))
            self.assertEqual(expected, statuses['loadbalancer', 'lb'])
            self.assertEqual(expected, statuses['listener', 'listener'])

    def test_vip_need_not_be_announced_if_nothing_is_served(self):
        for document in (without('listener', 'pool'), without('pool'),
                         without('members'), changed(listener=OFF),
                         changed(m1=DRAINED, m2=OFF, healthmonitor=OFF)):
            self.assertNotEqual(
                'does not serve', status.first(
                    status.NODE, status.NodeFacts(
                        node(announced=False), status._takes_flows(
                            document, node()), False)).status)

    def test_new_load_balancer_without_listeners_is_online(self):
        self.assertEqual('ONLINE', self.balancer(
            node(announced=False), document=without('listener', 'pool')))

    def test_vip_must_be_announced_for_members_without_a_monitor(self):
        self.assertEqual('ERROR', self.balancer(
            node(members={}, announced=False),
            document=without('healthmonitor')))
        self.assertEqual('ONLINE', self.balancer(
            node(members={}), document=without('healthmonitor')))

    def test_unknown_announcement_is_no_fault(self):
        self.assertEqual('ONLINE', self.balancer(node(announced=None)))

    def test_changes_are_no_fault_while_they_settle(self):
        for fault in ({'current': False}, {'announced': False}):
            self.assertEqual('ONLINE', self.balancer(
                node(), node('b', **fault), settling=True))
            self.assertEqual('ONLINE', self.balancer(
                node(**fault), settling=True))
        for fault in ({'live': False}, {'error': 'map full'}):
            self.assertEqual('ERROR', self.balancer(
                node(**fault), settling=True))

    def test_dead_nodes_results_do_not_count(self):
        statuses = self.of(base.document(), node(),
                           node('b', DOWN, live=False))
        self.assertEqual('ONLINE', statuses['member', 'm1'])

    def test_unused_pool_is_offline(self):
        for name in ('healthmonitor', None):
            document = without('listener', *([name] if name else []))
            statuses = self.of(document, node())
            self.assertEqual('OFFLINE', statuses['pool', 'pool'])
            self.assertEqual('ONLINE', statuses['loadbalancer', 'lb'])

    def test_disabled_load_balancer_makes_children_offline(self):
        statuses = self.of(changed(loadbalancer=OFF), node(members={}))
        self.assertEqual({'OFFLINE'}, set(statuses.values()))

    def test_backups_count_like_other_members(self):
        """With primaries down and backups up, the pool is degraded."""
        for backup, primary, pool in (('up', 'up', 'ONLINE'),
                                      ('up', 'down', 'DEGRADED'),
                                      ('down', 'up', 'DEGRADED'),
                                      ('down', 'down', 'ERROR')):
            statuses = self.of(changed(m1={'backup': True}), node(
                members={'m1': backup, 'm2': primary}))
            self.assertEqual(pool, statuses['pool', 'pool'], (backup, primary))

    def test_pool_with_draining_members_only_is_an_error(self):
        statuses = self.of(changed(m1=DRAINED, m2=DRAINED), node())
        self.assertEqual('DRAINING', statuses['member', 'm1'])
        self.assertEqual('ERROR', statuses['pool', 'pool'])
        self.assertEqual('ERROR', statuses['loadbalancer', 'lb'])


class TestTiers(base.TestCase):
    """LB node a and proxy node p."""

    PROXY_UP = {views.proxy_member_id('listener', 'p'): 'up'}

    def of(self, document, *nodes, **more):
        return status.operating_statuses(document, nodes, **more)

    def test_all_is_online_if_both_tiers_serve(self):
        statuses = self.of(layer_7(), node(members=self.PROXY_UP), proxy())
        self.assertEqual({'ONLINE'}, set(statuses.values()))
        self.assertEqual(
            {('l7policy', 'policy'), ('l7rule', 'rule'), ('member', 'm1')},
            statuses.keys() & {('l7policy', 'policy'), ('l7rule', 'rule'),
                               ('member', 'm1')})

    def test_members_are_judged_by_the_tier_that_serves_their_pool(self):
        shared = layer_7()
        shared['listeners']['other'] = dict(
            base.document()['listeners']['listener'], protocol_port=81)
        shared['pools']['pool']['protocol'] = 'TCP'
        for document, lb_node, proxy_node, expected in (
                (base.document(), DOWN, UP, 'ERROR'),
                (layer_7(), DOWN, UP, 'ONLINE'),
                (layer_7(), UP, {}, 'OFFLINE'),
                (shared, DOWN, UP, 'DEGRADED')):
            self.assertEqual(expected, self.of(
                document, node(members=lb_node), proxy(members=proxy_node))[
                    'member', 'm1'])

    def test_listener_needs_a_proxy_node_that_serves(self):
        for proxies in ([], [proxy(live=False)], [proxy(error='bad')],
                        [proxy(current=False)], [proxy('q')]):
            statuses = self.of(layer_7(), node(members=self.PROXY_UP),
                               *proxies)
            self.assertEqual('ERROR', statuses['listener', 'listener'])
            self.assertEqual('ERROR', statuses['loadbalancer', 'lb'])

    def test_listener_that_lb_nodes_are_not_sent_is_an_error(self):
        for document in (layer_7(served=False), layer_7(weight=0)):
            self.assertEqual('ERROR', self.of(document, node(), proxy())[
                'listener', 'listener'])

    def test_faulty_proxy_node_degrades_the_load_balancer_alone(self):
        for fault in ({'live': False}, {'current': False},
                      {'error': 'bad'}, {'problems': ['disk full']}):
            statuses = self.of(
                layer_7(), node(members=self.PROXY_UP), proxy(),
                proxy('q', **fault))
            self.assertEqual('DEGRADED', statuses['loadbalancer', 'lb'])
            self.assertEqual('ONLINE', statuses['listener', 'listener'])

    def test_proxy_nodes_do_not_replace_lb_nodes(self):
        statuses = self.of(layer_7(), node(live=False), proxy())
        self.assertEqual('ERROR', statuses['listener', 'listener'])
        self.assertEqual('ERROR', statuses['loadbalancer', 'lb'])

    def test_vip_must_be_announced_if_a_proxy_node_takes_flows(self):
        for members, expected in ((self.PROXY_UP, 'ERROR'),
                                  (UP, 'ONLINE'), ({}, 'ONLINE')):
            self.assertEqual(expected, self.of(
                layer_7(), node(members=members, announced=False), proxy())[
                    'loadbalancer', 'lb'])

    def test_policy_counts_for_its_pool_if_it_matches_requests(self):
        for options in ({'policy': OFF}, {'rule': OFF},
                        {'policy': {'rules': {}}}):
            statuses = self.of(layer_7(**options), node(), proxy())
            self.assertEqual('OFFLINE', statuses['pool', 'pool2'])
            self.assertEqual('ONLINE', statuses['listener', 'listener'])

    def test_disabled_parent_makes_policies_and_rules_offline(self):
        for name, kinds in (('loadbalancer', ('l7policy', 'l7rule')),
                            ('listener', ('l7policy', 'l7rule')),
                            ('policy', ('l7policy', 'l7rule')),
                            ('rule', ('l7rule',))):
            statuses = self.of(layer_7(**{name: OFF}), node(), proxy())
            self.assertEqual(
                kinds, tuple(kind for kind, key in (
                    ('l7policy', 'policy'), ('l7rule', 'rule'))
                    if statuses[kind, key] == 'OFFLINE'), name)


class TestProblems(base.TestCase):

    def test_healthy_node_has_no_problems(self):
        self.assertEqual([], status.problems({
            'problems': [], 'bgp_established': [2, 2], 'uplinks_ready': [4],
            'health_checker': {'checks': 3}}))

    def test_fields_that_a_node_omits_are_no_problem(self):
        self.assertEqual([], status.problems({'version': '0.1'}))
        self.assertFalse(status.knows_no_health({}))

    def test_each_part_of_a_node_counts(self):
        for state, text in (
                ({'problems': ['/run/octavia-xdp cannot be written']},
                 'cannot be written'),
                ({'bgp_established': [1, 2]}, '1 of 2 BGP sessions'),
                ({'bgp_established': [0, 2]}, '0 of 2 BGP sessions'),
                ({'uplinks_ready': []}, 'uplink'),
                ({'health_checker': None}, 'health checker')):
            problem, = status.problems(state)
            self.assertIn(text, problem)

    def test_node_without_checker_knows_no_health(self):
        self.assertTrue(status.knows_no_health({'health_checker': None}))


class TestView(base.TestCase):

    def view(self, state=None, generation=7, **more):
        return status.view(rows.Placement(**{
            'load_balancer_id': 'lb', 'host': 'a', 'synced_generation': 7,
            'error': None, 'removed_generation': None, 'members': UP,
            'announced': True, **more}), state or {}, True, generation)

    def test_view_has_the_rows_values(self):
        self.assertEqual(node(problems=[]), self.view())
        self.assertFalse(self.view(generation=8).current)
        self.assertEqual('full', self.view(error='full').error)
        self.assertIsNone(self.view(announced=None).announced)

    def test_announcements_of_proxy_nodes_are_not_judged(self):
        view = self.view(announced=False, role=rows.PROXY)
        self.assertEqual((None, rows.PROXY), (view.announced, view.role))

    def test_unreported_members_are_unknown(self):
        self.assertEqual({}, self.view(members=None).members)

    def test_results_of_node_without_checker_do_not_count(self):
        view = self.view({'health_checker': None})
        self.assertEqual({}, view.members)
        self.assertEqual(['the health checker does not answer'],
                         view.problems)

    def test_results_of_node_with_outdated_tables_do_not_count(self):
        view = self.view({'processes': {
            'octavia-xdp-result-handler': 'it stands still'}})
        self.assertEqual({}, view.members)
        self.assertEqual(['it stands still'], view.problems)
        view = self.view({'processes': {
            'octavia-xdp-exabgp': 'it does not run'}})
        self.assertEqual(node(problems=['it does not run']), view)
