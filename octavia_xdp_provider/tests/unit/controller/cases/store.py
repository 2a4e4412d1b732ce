# SPDX-License-Identifier: Apache-2.0
"""Documents and placements, and how their tables came to be."""

import contextlib
import copy
import os
import pathlib
import textwrap
from unittest import mock

import fixtures
from oslo_db import exception as db_exception
import sqlalchemy as sa

from octavia_xdp_provider.api import translate
from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base


def without(member_id):
    return lambda document: changes.apply(document, {
        'object': 'member', 'action': 'delete', 'object_id': member_id,
        'pool_id': 'pool'})


class Store(store_base.StoreTestCase):

    def test_generations_come_from_one_counter(self):
        first = self.store.load_balancers.create(base.document())
        second = self.store.load_balancers.create(spec.document(
            'lb2', base.tree(vip_address='203.0.113.11', pools={},
                             listeners={})))
        third = self.store.load_balancers.change('lb', without('m1'))
        self.assertLess(first, second)
        self.assertLess(second, third)

    def test_repeated_create_changes_nothing(self):
        generation = self.store.load_balancers.create(base.document())
        self.assertEqual(generation, self.store.load_balancers.create(
            base.document()))
        self.assertEqual(generation,
                         self.store.load_balancers.get('lb').generation)

    def test_vip_belongs_to_one_load_balancer(self):
        self.store.load_balancers.create(base.document())
        other = spec.document('lb2', base.tree(pools={}, listeners={}))
        self.assertRaises(errors.Conflict, self.store.load_balancers.create,
                          other)
        self.store.load_balancers.delete('lb')
        self.store.load_balancers.create(other)

    def test_ipv6_vip_belongs_to_one_load_balancer(self):
        for key, address in (('one', '2001:db8:100::9'),
                             ('other', '2001:DB8:100:0::9')):
            document = spec.document(key, translate.load_balancer_tree(
                {'vip_address': address}))
            if key == 'one':
                self.store.load_balancers.create(document)
            else:
                self.assertRaises(errors.Conflict,
                                  self.store.load_balancers.create, document)

    def test_member_distinguishes_vips_by_dscp(self):
        def document(key, number, dscp, member):
            tree = base.tree(vip_address=f'203.0.113.{number}', flavor={
                'encapsulation': 'dscp', 'dscp': dscp})
            # Ids are unique over all load balancers.
            tree['pools'] = {f'pool-{key}': dict(
                tree['pools']['pool'], members={
                    'm': base.member(member)})}
            return spec.document(key, tree)
        self.store.load_balancers.create(document('one', 1, 5, '198.18.10.11'))
        self.store.load_balancers.create(document('two', 2, 6, '198.18.10.11'))
        self.store.load_balancers.create(
            document('three', 3, 5, '198.18.10.12'))
        error = self.assertRaises(
            errors.Refused, self.store.load_balancers.create,
            document('four', 4, 5, '198.18.10.11'))
        self.assertEqual('address', error.option)
        # The text is that for an address which the operator has closed: it
        # must not reveal that another project has a server there.
        why, instead, _ = address_policy.closed('198.18.10.11', '')
        self.assertEqual((why, instead), (error.why, error.instead))
        self.assertIn('DSCP 5', error.for_operator)
        self.assertIsNone(self.store.load_balancers.get('four'))

        def add(stored):
            return changes.apply(stored, {
                'object': 'member', 'action': 'create', 'object_id': 'm2',
                'pool_id': 'pool-three',
                'fields': base.member('198.18.10.11')})
        self.assertRaises(errors.Refused, self.store.load_balancers.change,
                          'three', add)
        self.store.load_balancers.delete('one')
        self.store.load_balancers.change('three', add)

    def test_documents_of_an_older_version_are_completed(self):
        whole = base.document()
        old = copy.deepcopy(whole)
        for member in old['pools']['pool']['members'].values():
            del member['backup']
        del old['listeners']['listener']['allowed_cidrs']
        self.store.load_balancers.create(old)
        self.seen('host', {})
        self.store.placements.place('lb', add=['host'])
        self.assertEqual(whole, self.store.load_balancers.get('lb').document)
        self.assertEqual([spec.for_node(whole)], [
            row['document']
            for row in self.store.deltas.documents('host', ['lb'])])
        self.store.load_balancers.change(
            'lb', lambda document: self.assertEqual(
                whole, document) or document)

    def test_failed_change_leaves_everything(self):
        generation = self.store.load_balancers.create(base.document())

        def fail(document):
            raise errors.Refused('x', 'y', 'z')
        self.assertRaises(errors.Refused, self.store.load_balancers.change,
                          'lb', fail)
        row = self.store.load_balancers.get('lb')
        self.assertEqual((generation, base.document()),
                         (row.generation, row.document))

    def test_change_of_an_outdated_generation_is_dropped(self):
        generation = self.store.load_balancers.create(base.document())
        self.assertIsNone(self.store.load_balancers.change(
            'lb', without('m1'), expected=generation - 1))
        self.assertEqual(base.document(),
                         self.store.load_balancers.get('lb').document)

    def test_removed_objects_are_kept_until_sent(self):
        self.store.load_balancers.create(base.document())
        first = self.store.load_balancers.change('lb', without('m1'))
        second = self.store.load_balancers.change('lb', without('m2'))
        self.store.sent_statuses.note('lb', first, active=True, deleted=True)
        row = self.store.load_balancers.get('lb')
        self.assertEqual((('member', 'm2', second),), row.removed)
        self.assertEqual(first, row.sent_generation)

    def test_failure_keeps_removed_objects(self):
        self.store.load_balancers.create(base.document())
        generation = self.store.load_balancers.change('lb', without('m1'))
        self.store.sent_statuses.note('lb', generation, active=True,
                                      failed=True)
        row = self.store.load_balancers.get('lb')
        self.assertEqual(generation, row.failed_generation)
        self.assertEqual((('member', 'm1', generation),), row.removed)
        self.assertEqual(((), 0), (row.unconfirmed, row.sent_generation))

    def test_sent_statuses_are_kept_for_all_controllers(self):
        generation = self.store.load_balancers.create(base.document())
        sent = {('loadbalancer', 'lb'): 'ONLINE', ('pool', 'pool'): 'ERROR'}
        self.store.sent_statuses.note('lb', generation, statuses=sent)
        self.assertEqual(sent, self.store.load_balancers.get(
            'lb').sent_statuses)

    def parts(self):
        with self.store.database.read() as session:
            return {part.id: part.load_balancer_id
                    for part in session.query(models.Part)}

    def test_parts_lead_to_their_load_balancer(self):
        self.store.load_balancers.create(base.document())
        self.assertEqual({'pool': 'lb', 'listener': 'lb'}, self.parts())
        for change in (
                {'object': 'l7policy', 'action': 'create', 'object_id': 'po',
                 'listener_id': 'listener',
                 'fields': {'action': 'REJECT', 'position': 1}},
                {'object': 'pool', 'action': 'delete', 'object_id': 'pool'}):
            self.store.load_balancers.change(
                'lb', lambda document, change=change: changes.apply(
                    document, change))
        self.assertEqual({'listener': 'lb', 'po': 'lb'}, self.parts())
        self.store.load_balancers.change('lb', lambda document: changes.apply(
            document, {'object': 'listener', 'action': 'delete',
                       'object_id': 'listener'}))
        self.assertEqual({}, self.parts())

    def test_late_node_still_removes_deleted_load_balancers(self):
        self.store.load_balancers.create(base.document())
        self.store.nodes.register('a')
        self.store.placements.place('lb', ['a'])
        generation = self.store.load_balancers.delete('lb')
        self.store.load_balancers.forget('lb')
        self.assertIsNone(self.store.load_balancers.get('lb'))
        self.assertEqual(1, len(self.store.placements.select()))
        self.report_held('a', generation, {})
        self.assertEqual([], self.store.placements.select())

    def test_forget_spares_existing_load_balancers(self):
        self.store.load_balancers.create(base.document())
        self.store.load_balancers.forget('lb')
        self.assertIsNotNone(self.store.load_balancers.get('lb'))

    def test_nodes_are_known_from_their_first_report(self):
        self.assertTrue(self.seen('a', {'version': '1'}))
        self.assertFalse(self.seen('a', {'version': '2'}))
        self.assertEqual('2', self.store.nodes.all()[0].state['version'])
        self.assertTrue(self.store.nodes.set_in_service('a', False))
        self.assertFalse(self.store.nodes.all()[0].in_service)
        self.assertFalse(self.store.nodes.set_in_service('b', False))
        self.assertTrue(self.store.nodes.remove('a'))
        self.assertEqual([], self.store.nodes.all())

    def test_node_stays_in_service_after_a_report(self):
        self.seen('a', {})
        self.store.nodes.set_in_service('a', False)
        self.seen('a', {})
        self.assertFalse(self.store.nodes.all()[0].in_service)

    def count(self, host, bytes_in, flows, balancer='lb'):
        self.store.placements.place(balancer, add=[host])
        super().count(host, {balancer: {'listener': {
            'bytes': bytes_in, 'flows': flows}}})
        statistics = self.store.figures.statistics(10).get('listener')
        return statistics and statistics[:2]

    def test_counters_are_summed_over_nodes(self):
        self.store.load_balancers.create(base.document())
        self.assertEqual((100, 1), self.count('a', 100, 1))
        self.assertEqual((150, 3), self.count('b', 50, 2))
        self.assertEqual((270, 4), self.count('a', 220, 2))
        self.assertEqual((270, 4), self.count('a', 220, 2))

    def test_counters_of_removed_listeners_are_deleted(self):
        self.assertIsNone(self.count('a', 1, 1, 'unknown'))
        self.store.load_balancers.create(base.document())
        self.count('a', 1, 1)
        self.store.load_balancers.change('lb', lambda document: changes.apply(
            document, {'object': 'listener', 'action': 'delete',
                       'object_id': 'listener'}))
        self.assertEqual({}, self.store.figures.statistics(10))
        self.count('a', 1, 1)
        self.store.load_balancers.delete('lb')
        self.store.load_balancers.forget('lb')
        self.assertEqual({}, self.store.figures.statistics(10))


class Schema(store_base.StoreTestCase):

    def test_migrations_create_the_models(self):
        from alembic import autogenerate
        from alembic import migration
        manager = schema.context_manager(self.conf)
        with manager.writer.get_engine().connect() as connection:
            context = migration.MigrationContext.configure(
                connection, opts={'compare_type': True})
            self.assertEqual([], autogenerate.compare_metadata(
                context, models.Base.metadata))

    def test_unsupported_database_url_is_refused(self):
        conf = self.load('[database]\n'
                         'connection = mariadb+pymysql://user@host/name\n')

        error = self.assertRaises(option_values.ConfigurationError,
                                  schema.context_manager, conf)

        self.assertIn('[database] connection', str(error))
        self.assertIn('mysql+pymysql', str(error))
        self.assertNotIn('user', str(error))

    def test_second_upgrade_changes_nothing(self):
        manager = schema.context_manager(self.conf)
        head = schema._versions(manager.writer.get_engine())[1]
        self.assertEqual((head, head), schema.upgrade(manager))
        schema.check(manager)

    def test_server_does_not_use_snapshot_isolation(self):
        """The lab's MariaDB is set up as the installation guide says."""
        manager = schema.context_manager(self.conf)
        self.assertFalse(schema.has_snapshot_isolation(manager))

    def test_interrupted_migration_is_run_again(self):
        """A release after this one, too: what it changes of a table that is
        there and has rows, whichever statement was the last."""
        manager = schema.context_manager(self.load(
            f'[database]\nconnection = {self.database()}\n'))
        engine = manager.writer.get_engine()
        self.addCleanup(engine.dispose)
        self.interrupted(engine, lambda: schema.upgrade(manager))
        self.assertEqual(('0001', '0001'), schema.upgrade(manager))
        store = queries.Store(manager)
        store.load_balancers.create(base.document())
        with self.next_release():
            statements = self.interrupted(
                engine, lambda: schema.upgrade(manager))
            self.assertEqual(('0002', '0002'), schema.upgrade(manager))
        self.assertEqual(3, statements)
        with engine.connect() as connection:
            self.assertEqual([('lb', 2)], connection.execute(sa.text(
                'SELECT id, doubled FROM load_balancers')).all())
            self.assertEqual([], connection.execute(sa.text(
                'SELECT name FROM colours')).all())
        self.assertEqual(
            ['doubled'], [index['column_names'][0] for index in
                          sa.inspect(engine).get_indexes('load_balancers')
                          if index['name'] == 'ix_load_balancers_doubled'])

    def interrupted(self, engine, function):
        """Call it until it ends, each time for one statement more that
        changes the schema. Returns how many there were.

        As on MariaDB each of them is committed at once.
        """
        done = 0

        def after(_connection, cursor, statement, *_):
            nonlocal done
            if statement.split()[0] in ('CREATE', 'ALTER'):
                cursor.connection.commit()
                done += 1
                raise RuntimeError('the process ends here')

        sa.event.listen(engine, 'after_cursor_execute', after)
        try:
            while True:
                before = done
                # oslo.db may convert the error to its own.
                with contextlib.suppress(db_exception.DBError, RuntimeError):
                    function()
                if done == before:
                    return done
        finally:
            sa.event.remove(engine, 'after_cursor_execute', after)

    @contextlib.contextmanager
    def next_release(self):
        """Migrations as they will be: one more."""
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (directory / '0002_next.py').write_text(textwrap.dedent('''
            from alembic import op
            from octavia_xdp_provider.controller.store.migrations import steps
            import sqlalchemy as sa

            revision = '0002'
            down_revision = '0001'

            def upgrade():
                steps.create_table('colours', sa.Column(
                    'name', sa.String(8), primary_key=True))
                steps.add_column('load_balancers', sa.Column(
                    'doubled', sa.BigInteger, nullable=False,
                    server_default='0'))
                op.execute('UPDATE load_balancers '
                           'SET doubled = generation * 2')
                steps.create_index('load_balancers', 'doubled')
        '''))
        ours = schema._alembic

        def alembic(engine):
            config = ours(engine)
            config.set_main_option('version_locations', os.pathsep.join((
                os.path.join(config.get_main_option('script_location'),
                             'versions'), str(directory))))
            config.set_main_option('path_separator', 'os')
            return config

        with mock.patch.object(schema, '_alembic', alembic):
            yield

    def test_unprepared_database_names_the_command(self):
        conf = self.load('[database]\nconnection = sqlite://\n')
        error = self.assertRaises(schema.SchemaError, schema.check,
                                  schema.context_manager(conf))
        self.assertIn('octavia-xdp-manage database upgrade', str(error))
