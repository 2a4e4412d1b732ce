# SPDX-License-Identifier: Apache-2.0

from oslotest import base

from octavia_xdp_provider.agent.bgp import exabgp_config

NEIGHBOUR = exabgp_config.Neighbour(
    local_address='198.18.1.6', local_as=65010, peer_address='198.18.1.5',
    peer_as=65000)


class TestExaBgpConfig(base.BaseTestCase):

    def test_graceful_restart_is_off(self):
        text = exabgp_config.render(
            '198.18.1.6', [NEIGHBOUR], ['/bin/announcer', '--file', '/f'])

        self.assertIn('graceful-restart disable;', text)
        self.assertIn('run /bin/announcer --file /f;', text)

    def test_words_that_cannot_be_quoted_are_refused(self):
        for word in ('/a b', '/a;', '/{a}', ''):
            self.assertRaises(ValueError, exabgp_config.render, '198.18.1.6',
                              [NEIGHBOUR], ['/bin/announcer', word])
