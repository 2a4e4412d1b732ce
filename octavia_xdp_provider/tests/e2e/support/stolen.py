# SPDX-License-Identifier: Apache-2.0
"""Somebody with the credentials of a machine of the operator's calls all that
there is, beside a tenant's load balancer.

Which names he has on the broker is tried in functional tests
(test_broker_rights, test_host_rights); here real controllers serve him beside
everybody else.
"""

import itertools

import oslo_messaging

from lab.fabric import client
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import queue_names
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.tests.e2e.support import shared

ANSWER_S = 20
# What an argument may be that is of the wrong type or size.
WRONG = (None, True, -1, 2 ** 63, 2 ** 70, 1.5, float('inf'), '', '\x00',
         'x' * 100_000, [], [[]] * 1000, {}, {'': None}, {'x': {'y': [{}]}},
         {str(number): number for number in range(2000)})
_NOT_SERVED = 'UnsupportedVersion', 'NoSuchMethod', 'Refused'


class StolenTestCase(shared.WebTestCase):
    """``STOLEN``: the name of the machine; ``OTHERS``: names of others.

    ``METHODS``: (namespace, version, topic) → method → its arguments but for
    ``host``, in the values of ``HARMLESS``. ``CLOSED``: (namespace, version)
    of interfaces that such a machine is not served.
    """

    STOLEN: str
    OTHERS: tuple
    METHODS: dict
    CLOSED: tuple
    # Of a report that counts, and of what an agent does not say.
    HARMLESS = {'since': 0, 'after': None, 'ids': [],
                'epoch': 'x', 'seq': 1, 'report': {},
                'port': 'x', 'flows': []}

    def configuration(self):
        """The path of a configuration file with the credentials."""
        raise NotImplementedError

    def setUp(self):
        super().setUp()
        conf = options.load(config_files=[str(self.configuration())])
        # The agent has the first ones.
        numbers = queue_names.Manager._numbers
        queue_names.Manager._numbers = itertools.count(
            queue_names.NUMBERS // 2)
        self.addCleanup(setattr, queue_names.Manager, '_numbers', numbers)
        self.transport = rpc.transport(conf, host=self.STOLEN)
        self.addCleanup(self.transport.cleanup)

    def call(self, where, method, arguments, timeout=ANSWER_S):
        """The type of what is answered: an error's name, or "taken"."""
        namespace, version, topic = where
        target = oslo_messaging.Target(
            exchange=rpc.EXCHANGE, topic=topic, namespace=namespace,
            version=version)
        prepared = oslo_messaging.get_rpc_client(
            self.transport, target).prepare(timeout=timeout)
        try:
            prepared.call({}, method, **arguments)
        except oslo_messaging.RemoteError as error:
            return error.exc_type
        except oslo_messaging.MessagingTimeout:
            return 'silence'
        return 'taken'

    def of_others(self):
        """What he must not change."""
        return (self.stored(),
                self.sdk.get_load_balancer(
                    self.balancer.id).provisioning_status,
                self.statuses(self.pool),
                {row['host']: row['condition']
                 for row in self.managed('node', 'list')
                 if row['host'] != self.STOLEN})

    def check_others(self, before, controller):
        self.assertEqual(before, self.of_others())
        self.assertEqual(controller, self.controller_pid())
        self.change_member('member1', weight=7)
        self.check_requests(50)

    def test_calls_with_wrong_arguments_are_refused_and_harm_nobody(self):
        before, controller = self.of_others(), self.controller_pid()
        with client.Load(self.lab, self.url(self.balancer)) as load:
            for where, methods in self.METHODS.items():
                for method, names in methods.items():
                    self.check_method(where, method, names)
        self.assertEqual([], load.answers.failures)
        self.check_others(before, controller)

    def check_method(self, where, method, names):
        usual = {name: self.HARMLESS[name] for name in names}
        for name, value in itertools.product(('host', *names), WRONG):
            arguments = {'host': self.STOLEN, **usual, name: value}
            with self.subTest(method, name=name, value=str(value)[:20]):
                # What happens to be right is answered; no other error is.
                self.assertIn(self.call(where, method, arguments),
                              ('Refused', 'taken'))
        for host in (*self.OTHERS, 'x' * 300):
            with self.subTest(method, host=host[:20]):
                self.assertEqual('Refused', self.call(
                    where, method, {'host': host, **usual}))

    def test_interfaces_of_others_are_not_served(self):
        before, controller = self.of_others(), self.controller_pid()
        topics = {topic for _namespace, _version, topic in self.METHODS}
        for (namespace, version), method, topic in itertools.product(
                self.CLOSED, ('change', 'ended', 'cancel', 'ping', 'changed',
                              '__init__', 'target'), topics):
            with self.subTest(method, namespace=namespace):
                self.assertIn(
                    self.call((namespace, version, topic), method, {
                        'request': 'r', 'committed': True}), _NOT_SERVED)
        self.check_others(before, controller)
