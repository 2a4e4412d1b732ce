# SPDX-License-Identifier: Apache-2.0
"""Views of both tiers while a listener moves between them."""

import copy

from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.tests.unit import base

LISTENER, POOL, OTHER, MEMBER = (
    f'{number}0000000-0000-4000-8000-000000000000' for number in range(1, 5))
NODES = {'p': {'addresses': ['192.0.2.1'], 'weight': 1}}


def document(**pool):
    """Return a document of layer 4 with a second pool, which proxies serve.

    :param pool: changed options of the first pool.
    """
    tree = base.tree(
        listeners={LISTENER: {'protocol': 'TCP', 'protocol_port': 80,
                              'default_pool_id': POOL}},
        pools={POOL: {'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP_PORT',
                      'members': {MEMBER: base.member('198.18.10.11')},
                      **pool},
               OTHER: {'protocol': 'PROXYV2', 'lb_algorithm': 'ROUND_ROBIN'}})
    return spec.document('00000000-0000-4000-8000-000000000000', tree)


def moved(before, **options):
    """Return the document after a change that moves the listener."""
    after = copy.deepcopy(before)
    after['listeners'][LISTENER].update(options)
    return views.with_moves(before, after)


class TestToProxyNodes(base.TestCase):

    def test_lb_nodes_go_on_until_proxy_nodes_serve_it(self):
        before = document()
        for options in ({'default_pool_id': OTHER}, {'connection_limit': 9}):
            after = moved(before, **options)
            self.assertEqual({LISTENER: POOL}, after['proxies']['moving'])
            view = views.for_lb_node(after)
            self.assertEqual(before['listeners'], view['listeners'])
            self.assertEqual(before['pools'][POOL], view['pools'][POOL])
            after['proxies'] = {'nodes': NODES, 'listeners': [LISTENER]}
            self.assertEqual(
                views.proxy_pool_id(LISTENER), views.for_lb_node(after)[
                    'listeners'][LISTENER]['default_pool_id'])

    def test_lb_nodes_are_sent_what_they_can_serve(self):
        before = document()
        after = copy.deepcopy(before)
        after['pools'][POOL].update(
            lb_algorithm='ROUND_ROBIN', tls_enabled=True,
            session_persistence={'type': 'HTTP_COOKIE',
                                 'persistence_timeout': None,
                                 'persistence_granularity': None})
        view = views.for_lb_node(views.with_moves(before, after))
        self.assertEqual(before['pools'][POOL], view['pools'][POOL])

    def test_pool_that_is_gone_or_not_of_layer_4_is_not_served(self):
        after = moved(document(), default_pool_id=OTHER)
        del after['pools'][POOL]
        self.assertEqual({}, views.for_lb_node(after)['listeners'])
        before = document()
        after = copy.deepcopy(before)
        after['pools'][POOL]['protocol'] = 'PROXY'
        self.assertEqual({}, views.for_lb_node(
            views.with_moves(before, after))['listeners'])

    def test_other_changes_move_nothing(self):
        before = document()
        self.assertNotIn('proxies', views.with_moves(None, before))
        self.assertIs(before, views.with_moves(document(), before))
        proxied = moved(before, default_pool_id=OTHER)
        proxied['proxies'] = {'nodes': NODES, 'listeners': [LISTENER]}
        self.assertNotIn('moving', views.with_moves(
            proxied, copy.deepcopy(proxied))['proxies'])


class TestToLbNodes(base.TestCase):

    def test_proxy_nodes_go_on_until_lb_nodes_are_told(self):
        after = document()
        after['proxies'] = {'nodes': NODES, 'listeners': [LISTENER]}
        self.assertEqual(after['listeners'],
                         views.for_lb_node(after)['listeners'])
        view = views.for_proxy(after)
        proxy_spec.check(view)
        self.assertEqual({LISTENER}, view['listeners'].keys())
        self.assertEqual({POOL}, view['pools'].keys())
        after['proxies']['listeners'] = ['gone']
        self.assertEqual({}, views.for_proxy(after)['listeners'])
