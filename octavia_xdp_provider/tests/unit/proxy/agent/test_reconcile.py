# SPDX-License-Identifier: Apache-2.0

from unittest import mock

from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.proxy.agent import orders
from octavia_xdp_provider.proxy.agent import reconcile
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.unit.proxy.agent import node

FIRST, SECOND, MEMBER = node.FIRST, node.SECOND, node.MEMBER
BUNDLE = documents.bundle('bundle')


class TestReports(node.NodeTestCase):

    def test_document_is_done_when_haproxy_serves_it(self):
        self.run_pass(node.document())
        self.assertIsNone(self.held())
        waiting = {'configuration_hash': None, 'certificates': None,
                   'listening': False}
        for state in ({'phase': 'waiting', **waiting}, waiting,
                      {'configuration_hash': 64 * '0'},
                      {'listening': False}, {'certificates': 'others'}):
            self.answer(**state)
            self.assertIsNone(self.held(), state)
        self.answer()
        self.assertEqual((1, None), self.held())
        # The next one is not done by what serves the last one.
        self.run_pass(node.document(connection_limit=7))
        self.assertEqual((1, None), self.held())
        self.answer()
        self.assertEqual((2, None), self.held())

    def test_death_of_haproxy_is_no_change(self):
        self.run_pass(node.document())
        self.answer()
        self.answer(phase='waiting', configuration_hash=None,
                    certificates=None, pid=None)
        self.assertEqual((1, None), self.held())

    def test_what_is_refused_has_haproxys_own_text(self):
        self.run_pass(node.document())
        served = self.launch()['configuration_hash']
        self.answer()
        self.run_pass(node.document(connection_limit=7))
        for phase in 'refused', 'failed':
            self.answer(phase=phase, error='[ALERT] no',
                        configuration_hash=served)
            self.assertEqual((2, '[ALERT] no'), self.held())
            # While the launcher tries again it is still refused.
            self.answer(configuration_hash=served)
            self.assertEqual((2, '[ALERT] no'), self.held())
        self.answer()
        self.assertEqual((2, None), self.held())

    def test_error_of_the_last_document_is_not_that_of_the_next(self):
        self.run_pass(node.document())
        judged = self.launch()['configuration_hash']
        self.run_pass(node.document(connection_limit=7))
        self.answer(phase='refused', error='[ALERT] no', judged_hash=judged,
                    configuration_hash=None)
        self.assertIsNone(self.held())

    def test_long_text_is_shortened(self):
        self.run_pass(node.document())
        self.answer(phase='refused', error=9999 * 'x')
        self.assertEqual(messages.TEXT_MAX, len(self.held()[1]))

    def test_nothing_to_run_is_done_at_once(self):
        self.run_pass(node.document())
        self.answer()
        self.run_pass(node.document(admin_state_up=False))
        self.assertFalse(self.directory().exists())
        self.assertEqual((2, None), self.held())

    def test_removed_one_is_held_until_nothing_of_it_runs(self):
        self.run_pass(node.document())
        self.answer()
        number = self.launch()['number']
        self.run_pass()
        self.assertFalse(self.directory().exists())
        self.assertEqual((1, None), self.held())
        self.run_pass(*(node.document(documents.uuid_of(name))
                        for name in 'abcd'))
        self.assertNotIn(number, {
            self.launch(documents.uuid_of(name))['number']
            for name in 'abc'})
        self.assertIn('number_max', self.held(documents.uuid_of('d'))[1])
        self.end()
        self.assertIsNone(self.held())
        self.run_pass(*(node.document(documents.uuid_of(name))
                        for name in 'abcd'))
        self.assertEqual(number,
                         self.launch(documents.uuid_of('d'))['number'])

    def test_unknown_states_are_no_end(self):
        self.run_pass(node.document())
        self.answer()
        (self.top / 'run' / 'state').rename(self.top / 'away')
        self.run_pass()
        self.assertIsNotNone(self.states.problem)
        self.assertEqual((1, None), self.held())

    def test_states_of_members_are_reported_when_they_change(self):
        self.run_pass(node.document())
        self.answer()
        self.assertEqual({}, self.agent.held[FIRST]['members'])
        before = self.agent.held
        self.health.members = {MEMBER: 'down'}
        self.look()
        self.assertIs(before, self.agent.held)
        self.health.news = {FIRST}
        self.look()
        self.assertEqual({MEMBER: 'down'}, self.agent.held[FIRST]['members'])
        messages_shape = messages.Held.__annotations__.keys()
        self.assertLessEqual(self.agent.held[FIRST].keys(), messages_shape)

    def test_bad_document_harms_its_load_balancer_alone(self):
        self.run_pass(node.document(), node.document(SECOND))
        self.answer()
        self.answer(SECOND)
        before = self.statuses()
        self.run_pass(node.document(protocol='TERMINATED_HTTPS'),
                      node.document(SECOND, connection_limit=7))
        self.answer(SECOND)
        generation, error = self.held()
        self.assertEqual(2, generation)
        self.assertIn('default_tls_container_ref', error)
        self.assertEqual((2, None), self.held(SECOND))
        self.assertEqual(before, self.statuses())
        self.run_pass({'id': FIRST}, node.document(SECOND))
        self.assertEqual(3, self.held()[0])
        self.assertEqual(before, self.statuses())

    def test_failure_of_the_renderer_harms_its_load_balancer_alone(self):
        with mock.patch.object(reconcile.plans, 'make',
                               side_effect=ZeroDivisionError('no')):
            self.run_pass(node.document())
        self.assertEqual((1, 'ZeroDivisionError: no'), self.held())
        self.run_pass(node.document())
        self.answer()
        self.assertEqual((1, None), self.held())

    def test_file_that_cannot_be_written_is_tried_again(self):
        write = orders.Orders.write

        def fail(written, key, plan):
            if key == FIRST:
                raise OSError(28, 'No space left on device', key)
            write(written, key, plan)
        with mock.patch.object(orders.Orders, 'write', fail):
            self.run_pass(node.document(), node.document(SECOND))
        self.assertIn('No space left', self.held()[1])
        self.assertTrue(self.agent.is_waiting)
        self.answer(SECOND)
        self.assertEqual((1, None), self.held(SECOND))
        self.run_pass(node.document(), node.document(SECOND))
        self.answer()
        self.assertEqual((1, None), self.held())
        self.assertFalse(self.agent.is_waiting)

    def test_checker_that_cannot_be_told_stops_nothing(self):
        with mock.patch.object(self.health, 'want', side_effect=OSError(
                28, 'No space left on device')):
            self.run_pass(node.document())
        self.answer()
        self.assertEqual((1, None), self.held())
        self.assertIn('No space left', self.agent.problems[0])
        self.run_pass(node.document())
        self.assertEqual([], self.agent.problems)
        self.assertEqual([FIRST], list(self.health.wanted))

    def test_missing_secret_is_waited_for(self):
        document = node.document(protocol='TERMINATED_HTTPS',
                                 default_tls_bundle=BUNDLE)
        self.run_pass(node.document())
        self.answer()
        self.run_pass(document)
        self.assertEqual((1, None), self.held())
        self.assertTrue(self.agent.is_waiting)
        self.secrets.contents = {f'{BUNDLE}.pem': b'secret'}
        self.run_pass(document)
        self.answer()
        self.assertEqual((2, None), self.held())


    def test_changed_secret_is_another_configuration(self):
        self.secrets.contents = {f'{BUNDLE}.pem': b'one'}
        wanted = (node.document(protocol='TERMINATED_HTTPS',
                                default_tls_bundle=BUNDLE),
                  node.document(SECOND))
        self.run_pass(*wanted)
        self.assertEqual({FIRST: {BUNDLE}}, self.secrets.wanted)
        before, other = self.launch(), self.statuses(SECOND)
        self.secrets.contents = {f'{BUNDLE}.pem': b'two'}
        self.run_pass(*wanted)
        self.assertEqual(before, self.launch())
        self.secrets.news = {FIRST, documents.uuid_of('unknown')}
        self.agent.look_for_secrets()
        self.assertTrue(self.agent.is_waiting)
        self.run_pass(*wanted)
        self.assertFalse(self.agent.is_waiting)
        self.assertNotEqual(before['certificates'],
                            self.launch()['certificates'])
        self.assertEqual(other, self.statuses(SECOND))


class TestRestart(node.NodeTestCase):

    def test_nothing_is_written_again(self):
        documents_ = node.document(), node.document(SECOND)
        self.run_pass(*documents_)
        self.answer()
        before = self.statuses(), self.statuses(SECOND)
        self.run_pass(*documents_)
        self.restart()
        self.run_pass(*documents_)
        self.assertEqual(before, (self.statuses(), self.statuses(SECOND)))
        self.assertEqual((1, None), self.held())
        self.assertIsNone(self.held(SECOND))

    def test_what_serves_is_reported_before_secrets_are_here(self):
        """Controllers forget what a complete report does not have."""
        document = node.document(protocol='TERMINATED_HTTPS',
                                 default_tls_bundle=BUNDLE)
        self.secrets.contents = {f'{BUNDLE}.pem': b'secret'}
        self.run_pass(document)
        self.answer()
        for wanted in (document, node.document(
                protocol='TERMINATED_HTTPS', default_tls_bundle=BUNDLE,
                connection_limit=7)):
            self.secrets.contents = None
            self.restart()
            self.run_pass(wanted)
            self.assertEqual((1, None), self.held())
        self.secrets.contents = {f'{BUNDLE}.pem': b'secret'}
        self.run_pass(wanted)
        self.assertEqual((1, None), self.held())
        self.answer()
        self.assertEqual((3, None), self.held())
        # Nothing serves any more.
        self.secrets.contents = None
        self.answer(listening=False)
        self.restart()
        self.run_pass(wanted)
        self.assertIsNone(self.held())

    def test_member_that_goes_down_is_no_reason_for_a_reload(self):
        self.run_pass(node.document())
        before = self.statuses()
        self.health.members = {MEMBER: 'down'}
        self.run_pass(node.document())
        self.restart()
        self.run_pass(node.document())
        self.assertEqual(before, self.statuses())
        # The next configuration has it, whoever renders it again.
        self.run_pass(node.document(connection_limit=7))
        self.assertIn('disabled', self.configuration())
        before = self.statuses()
        self.health.members = {MEMBER: 'up'}
        self.restart()
        self.run_pass(node.document(connection_limit=7))
        self.assertEqual(before, self.statuses())

    def test_removed_while_no_agent_ran(self):
        self.run_pass(node.document(), node.document(SECOND))
        self.answer()
        self.restart()
        self.run_pass(node.document(SECOND))
        self.assertFalse(self.directory().exists())
        self.end()
        self.assertEqual([f'{SECOND}.json'], [
            path.name for path in (
                self.top / 'own' / 'load-balancers').iterdir()])

    def test_nothing_is_removed_before_it_is_known_what_is_wanted(self):
        self.run_pass(node.document())
        self.answer()
        self.restart()
        self.look()
        self.run_pass(node.document())
        self.assertTrue(self.directory().exists())
        self.assertEqual((1, None), self.held())

    def test_foreign_changes_are_repaired(self):
        self.run_pass(node.document())
        text = self.configuration()
        (self.directory() / 'haproxy.cfg').write_text('others')
        (self.directory() / 'launch.json').unlink()
        self.run_pass(node.document())
        self.assertEqual(text, self.configuration())
        self.launch()
        self.top.joinpath('run', 'wanted', documents.uuid_of('foreign')
                          ).mkdir()
        self.run_pass(node.document())
        self.assertEqual([FIRST], [path.name for path in (
            self.top / 'run' / 'wanted').iterdir()])
