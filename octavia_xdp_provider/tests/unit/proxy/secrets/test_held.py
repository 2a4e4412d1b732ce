# SPDX-License-Identifier: Apache-2.0
"""Secrets of a node, which are fetched when they are needed."""

import oslo_messaging

from octavia_xdp_provider.bundles import bundle
from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.proxy.agent import parts
from octavia_xdp_provider.proxy.secrets import held
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bundles import certificates

LB, OTHER = 'a' * 36, 'b' * 36


class Controllers:
    """Have bundles and keys of tickets, and seal them for a key."""

    def __init__(self, public_key):
        self.public_key = public_key
        self.stored = {}  # name → bundle
        self.keys = {}  # load balancer id → keys of tickets
        self.calls = []
        self.error = self.problem = None
        self.page = messages.BUNDLES_PAGE

    def bundles(self, host, names):
        self.calls.append(('bundles', names))
        if self.error:
            raise self.error
        sent = [name for name in names if name in self.stored][:self.page]
        return {'problem': self.problem, 'bundles': {
            name: sealing.seal(self.stored[name], self.public_key)
            for name in sent}}

    def tickets(self, host, ids):
        self.calls.append(('tickets', ids))
        if self.error:
            raise self.error
        return {'problem': self.problem, 'tickets': {
            key: {'name': self.keys[key].name(key),
                  'sealed': sealing.seal(self.keys[key], self.public_key)}
            for key in ids if key in self.keys}}


class TestSecrets(base.TestCase):

    def setUp(self):
        super().setUp()
        self.pair = sealing.KeyPair(b'n' * 32)
        self.controllers = Controllers(self.pair.public)
        self.arrived = 0
        self.secrets = held.Secrets('node', self.controllers, self.pair,
                                    self.arrive)
        self.certificate = bundle.certificate(*certificates.made())
        self.authority = bundle.authority(certificates.made()[0])

    def arrive(self):
        self.arrived += 1

    def store(self, *made, key=LB):
        """Let controllers have bundles, and return their names."""
        names = [content.name(key) for content in made]
        self.controllers.stored.update(zip(names, made, strict=True))
        self.controllers.keys.setdefault(key, bundle.tickets())
        return frozenset(names)

    def missing(self, names, key=LB):
        """Return why files are missing, which are wanted from now on."""
        self.secrets.want({key: names})
        return str(self.assertRaises(parts.Missing, self.secrets.files, key,
                                     names))

    def test_missing_files_are_fetched_and_their_arrival_is_announced(self):
        names = self.store(self.certificate, self.authority)
        self.assertIn('being fetched', self.missing(names))
        self.assertTrue(self.secrets.fetch())
        self.assertEqual(1, self.arrived)
        self.assertEqual({
            f'{self.certificate.name(LB)}.pem': self.certificate.pem,
            f'{self.authority.name(LB)}.pem': self.authority.pem,
            'ticket-keys': self.controllers.keys[LB].pem,
        }, self.secrets.files(LB, names))
        self.controllers.calls.clear()
        self.assertFalse(self.secrets.fetch())
        self.assertEqual([], self.controllers.calls)

    def test_authorities_alone_need_no_keys_of_tickets(self):
        names = self.store(self.authority)
        del self.controllers.keys[LB]
        self.missing(names)
        self.secrets.fetch()
        self.assertEqual([self.authority.pem],
                         list(self.secrets.files(LB, names).values()))

    def test_certificate_without_keys_of_tickets_is_missing(self):
        names = self.store(self.certificate)
        del self.controllers.keys[LB]
        self.missing(names)
        self.secrets.fetch()
        self.missing(names)
        self.controllers.keys[LB] = bundle.tickets()
        self.secrets.fetch()
        self.assertIn('ticket-keys', self.secrets.files(LB, names))

    def test_what_does_not_fit_into_a_message_is_asked_for_again(self):
        names = self.store(self.certificate, self.authority)
        self.controllers.page = 1
        self.missing(names)
        self.secrets.fetch()
        self.assertEqual(3, len(self.secrets.files(LB, names)))

    def test_node_without_a_registered_key_says_what_to_do(self):
        names = self.store(self.certificate)
        self.controllers.problem = 'no public key of this node is registered'
        self.controllers.stored.clear()
        self.missing(names)
        self.secrets.fetch()
        self.assertEqual(self.controllers.problem, self.missing(names))

    def test_other_key_than_the_registered_one_is_named(self):
        names = self.store(self.certificate)
        self.controllers.public_key = sealing.KeyPair(b'x' * 32).public
        self.missing(names)
        self.secrets.fetch()
        error = self.missing(names)
        self.assertIn(self.pair.public, error)
        self.assertIn(self.certificate.name(LB), error)

    def test_answers_that_are_exchanged_are_not_used(self):
        """By whoever has the broker."""
        names = self.store(self.certificate)
        name, = names
        self.controllers.stored[name] = self.authority
        self.missing(names)
        self.secrets.fetch()
        self.assertIn('another bundle', self.missing(names))
        self.controllers.stored[name] = self.certificate
        self.controllers.keys[LB] = self.certificate
        self.secrets.fetch()
        self.assertIn('another kind', self.missing(names))

    def test_silent_controllers_are_asked_again(self):
        names = self.store(self.certificate)
        self.controllers.error = oslo_messaging.MessagingTimeout()
        self.missing(names)
        self.assertFalse(self.secrets.fetch())
        self.assertIn('MessagingTimeout', self.missing(names))
        self.controllers.error = None
        self.secrets.fetch()
        self.assertIsNone(self.secrets.problem)
        self.secrets.files(LB, names)

    def test_malformed_answer_is_not_used(self):
        names = self.store(self.certificate)
        self.controllers.problem = 5
        self.missing(names)
        self.secrets.fetch()
        self.assertIn('malformed', self.missing(names))

    def test_new_keys_of_tickets_are_noticed(self):
        names = self.store(self.certificate)
        self.missing(names)
        self.secrets.fetch()
        self.assertEqual({LB}, self.secrets.changed())
        newer = self.controllers.keys[LB] = bundle.tickets(
            self.controllers.keys[LB])
        self.secrets.fetch()
        self.assertNotEqual(newer.pem,
                            self.secrets.files(LB, names)['ticket-keys'])
        self.patch(held, 'TICKETS_S', -1)
        self.secrets.fetch()
        self.assertEqual({LB}, self.secrets.changed())
        self.assertEqual(newer.pem,
                         self.secrets.files(LB, names)['ticket-keys'])
        self.secrets.fetch()
        self.assertEqual(set(), self.secrets.changed())

    def test_secrets_of_load_balancers_that_have_left_are_forgotten(self):
        names = self.store(self.certificate)
        self.missing(names)
        self.secrets.fetch()
        self.secrets.want({LB: names})
        self.secrets.files(LB, names)
        self.secrets.want({OTHER: names})
        self.missing(names)

    def test_contents_are_in_no_text(self):
        names = self.store(self.certificate)
        self.missing(names)
        self.secrets.fetch()
        for text in (repr(self.secrets), repr(vars(self.secrets))):
            self.assertNotIn('BEGIN', text)

    def test_thread_fetches_and_ends(self):
        names = self.store(self.certificate)
        self.run_in_thread(self.secrets)
        self.missing(names)
        self.wait_until(lambda: self.arrived)
        self.secrets.files(LB, names)
