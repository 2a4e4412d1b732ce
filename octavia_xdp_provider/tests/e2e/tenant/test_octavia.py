# SPDX-License-Identifier: Apache-2.0
"""Octavia as the controller sees it, against the real one.

Load balancers are of Octavia's own driver that does nothing, so that every
change stays PENDING until this test sets its statuses.
"""

import threading
from unittest import mock
import uuid

from octavia_lib.common import constants as lib

from lab import cloud
from lab.control import octavia as lab_octavia
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import statistics
from octavia_xdp_provider.controller import status_message
from octavia_xdp_provider.controller.octavia import api
from octavia_xdp_provider.controller.octavia import client
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.tests.e2e.support import base


class OctaviaTestCase(base.LabTestCase):

    def setUp(self):
        super().setUp()
        patch = mock.patch.object(api, 'PROVIDER', lab_octavia.NOOP)
        patch.start()
        self.addCleanup(patch.stop)
        self.conf = options.load(config_files=[
            str(lab_octavia.provider_configuration(self.lab))])
        self.octavia = client.Octavia(self.conf)

    def create(self, **more):
        """A load balancer that is PENDING_CREATE."""
        balancer = self.sdk.create_load_balancer(
            name=self.unique('octavia'), provider=lab_octavia.NOOP,
            vip_subnet_id=self.subnet('vips-v4'), **more)
        self.addCleanup(self.remove, balancer.id)
        return balancer.id

    def remove(self, key):
        self.activate(key)
        if self.octavia.provisioning_status(key) is not None:
            self.sdk.delete_load_balancer(key, cascade=True)
            self.octavia.set_statuses(status_message.message(
                {}, removed=self.octavia.tree(key)))

    def activate(self, key):
        """Set ACTIVE what is PENDING; returns what that was."""
        tree = self.octavia.tree(key) or {}
        pending = status_message.pending(tree)
        gone = {name for name in pending
                if tree[name] == lib.PENDING_DELETE}
        if pending:
            self.octavia.set_statuses(status_message.message(
                {}, dict.fromkeys(pending - gone, lib.ACTIVE), gone))
        return pending

    def web(self):
        """A load balancer that is ACTIVE; ids by kind of its objects."""
        key = self.create(listeners=[{
            'name': 'web', 'protocol': 'TCP', 'protocol_port': 80,
            'default_pool': {
                'name': 'pool', 'protocol': 'TCP',
                'lb_algorithm': 'SOURCE_IP_PORT',
                'members': [{'address': '198.18.10.11',
                             'protocol_port': 80}],
                'healthmonitor': {'name': 'hm', 'type': 'TCP', 'delay': 5,
                                  'timeout': 3, 'max_retries': 2}}}])
        self.activate(key)
        return dict(list(self.octavia.tree(key)))


class TestOctavia(OctaviaTestCase):

    def test_statuses_that_are_set_are_what_the_api_shows(self):
        made = self.web()
        key = made['loadbalancer']
        self.assertEqual(
            dict.fromkeys(made.items(), lib.ACTIVE), self.octavia.tree(key))
        self.assertEqual(lib.ACTIVE, self.octavia.provisioning_status(key))
        self.octavia.set_statuses(status_message.message(
            {('loadbalancer', key): lib.DEGRADED,
             ('member', made['member']): lib.ERROR}))
        self.assertEqual(
            lib.DEGRADED, self.sdk.get_load_balancer(key).operating_status)
        self.assertEqual(lib.ERROR, self.sdk.get_member(
            made['member'], made['pool']).operating_status)

    def test_pools_that_no_listener_uses_are_in_the_tree(self):
        key = self.create()
        self.activate(key)
        pool = self.sdk.create_pool(
            loadbalancer_id=key, protocol='TCP',
            lb_algorithm='SOURCE_IP_PORT').id
        self.assertEqual({('loadbalancer', key): lib.PENDING_UPDATE,
                          ('pool', pool): lib.PENDING_CREATE},
                         self.octavia.tree(key))
        self.activate(key)
        member = self.sdk.create_member(
            pool, address='198.18.10.11', protocol_port=80).id
        self.activate(key)
        monitor = self.sdk.create_health_monitor(
            pool_id=pool, type='TCP', delay=5, timeout=3, max_retries=2).id
        self.assertEqual({('loadbalancer', key): lib.PENDING_UPDATE,
                          ('pool', pool): lib.PENDING_UPDATE,
                          ('member', member): lib.ACTIVE,
                          ('healthmonitor', monitor): lib.PENDING_CREATE},
                         self.octavia.tree(key))

    def test_the_document_is_what_octavia_holds(self):
        made = self.web()
        document = self.octavia.document(made['loadbalancer'])
        self.assertEqual(set(made.items()), spec.objects(document))
        self.assertEqual('198.18.10.11', document['pools'][made['pool']][
            'members'][made['member']]['address'])

    def test_what_there_is_not_is_none(self):
        for call in (self.octavia.document, self.octavia.tree,
                     self.octavia.provisioning_status):
            self.assertIsNone(call(str(uuid.uuid4())))

    def test_load_balancers_are_listed_in_pages(self):
        made = {self.create() for _ in range(2)}
        section = self.conf.octavia
        for size in (1, 500):
            self.conf.set_override('page_size', size, 'octavia')
            rows = {row.id: row for row in client.Octavia(
                self.conf).listed()}
            self.assertLessEqual(made, rows.keys(), section.page_size)
        row = rows[made.pop()]
        self.assertEqual((lib.PENDING_CREATE, lib.OFFLINE),
                         (row.provisioning_status, row.operating_status))
        with mock.patch.object(api, 'PROVIDER', lab_octavia.XDP):
            self.assertFalse(made & {row.id for row in self.octavia.listed()})

    def test_a_deleted_load_balancer_is_gone(self):
        key = self.create()
        self.activate(key)
        self.sdk.delete_load_balancer(key)
        self.assertEqual({('loadbalancer', key): lib.PENDING_DELETE},
                         self.octavia.tree(key))
        self.octavia.set_statuses(status_message.message(
            {}, removed=[('loadbalancer', key)]))
        self.assertIsNone(self.octavia.tree(key))
        self.assertIsNone(self.octavia.provisioning_status(key))
        self.assertIsNone(self.octavia.document(key))
        self.assertNotIn(key, [row.id for row in self.octavia.listed()])

    def test_a_bad_record_fails_for_its_caller_only(self):
        keys = [self.create() for _ in range(3)]
        results = {}

        def activate(key, status):
            try:
                self.octavia.set_statuses(status_message.message(
                    {('loadbalancer', key): status},
                    {('loadbalancer', key): lib.ACTIVE}))
                results[key] = None
            except errors.Rejected as error:
                results[key] = error
        threads = [threading.Thread(
            target=activate, args=(key, 'ONLINE' if number else 'NONSENSE'))
            for number, key in enumerate(keys)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertIsInstance(results.pop(keys[0]), errors.Rejected)
        self.assertEqual(dict.fromkeys(keys[1:]), results)
        self.assertEqual(
            [lib.PENDING_CREATE, lib.ACTIVE, lib.ACTIVE],
            [self.octavia.provisioning_status(key) for key in keys])

    def test_statistics_are_what_the_api_shows(self):
        made = self.web()
        self.octavia.set_statistics(
            [statistics.record(made['listener'], 1234, 5, 7, 3)])
        shown = self.sdk.get_load_balancer_statistics(made['loadbalancer'])
        self.assertEqual((1234, 5, 0, 3, 7), (
            shown.bytes_in, shown.total_connections, shown.bytes_out,
            shown.active_connections, shown.request_errors))

    def test_a_wrong_password_is_said(self):
        self.conf.set_override('password', 'wrong', 'octavia')
        with self.assertRaises(errors.OctaviaUnavailable) as raised:
            client.Octavia(self.conf).provisioning_status('x')
        self.assertIn('user and password', str(raised.exception))

    def test_a_user_who_may_not_see_all_gets_no_list(self):
        """Octavia would list his own, and all others were missing."""
        for name, value in (
                ('username', cloud.TENANT), ('project_name', cloud.TENANT),
                ('password', cloud.environment(self.lab)['OS_PASSWORD'])):
            self.conf.set_override(name, value, 'octavia')
        with self.assertRaises(errors.OctaviaUnavailable) as raised:
            list(client.Octavia(self.conf).listed())
        self.assertIn('global_observer', str(raised.exception))


class TestPending(OctaviaTestCase):
    """Octavia makes those objects PENDING that made_pending returns."""

    def check(self, made, before, call, **change):
        """:returns: the document when Octavia has done the change."""
        key = made['loadbalancer']
        call()
        tree = self.octavia.tree(key)
        removed = {name for name, status in tree.items()
                   if status == lib.PENDING_DELETE}
        after = self.octavia.document(key)
        if change['action'] == 'create':
            change['object_id'], = [
                key for kind, key in spec.objects(after)
                - spec.objects(before) if kind == change['object']]
        self.assertEqual(
            status_message.pending(tree) - removed,
            status_message.made_pending(before, after, change) - removed)
        self.activate(key)
        return self.octavia.document(key) if removed else after

    def test_each_change_of_the_api(self):
        made = self.web()
        pool = made['pool']
        document = self.octavia.document(made['loadbalancer'])
        for call, change in (
                (lambda: self.sdk.update_load_balancer(
                    made['loadbalancer'], name='x'),
                 ('loadbalancer', 'update')),
                (lambda: self.sdk.update_listener(
                    made['listener'], name='x'), ('listener', 'update')),
                (lambda: self.sdk.update_pool(pool, name='x'),
                 ('pool', 'update')),
                (lambda: self.sdk.update_member(
                    made['member'], pool, weight=2), ('member', 'update')),
                (lambda: self.sdk.update_health_monitor(
                    made['healthmonitor'], delay=6),
                 ('healthmonitor', 'update')),
                (lambda: self.sdk.delete_health_monitor(
                    made['healthmonitor']), ('healthmonitor', 'delete')),
                (lambda: self.sdk.create_health_monitor(
                    pool_id=pool, type='TCP', delay=5, timeout=3,
                    max_retries=2), ('healthmonitor', 'create')),
                (lambda: self.sdk.create_member(
                    pool, address='198.18.10.12', protocol_port=80),
                 ('member', 'create')),
                (lambda: self.sdk.delete_member(made['member'], pool),
                 ('member', 'delete')),
                (lambda: self.sdk.create_listener(
                    load_balancer_id=made['loadbalancer'], protocol='TCP',
                    protocol_port=81, default_pool_id=pool),
                 ('listener', 'create')),
                (lambda: self.sdk.delete_listener(made['listener']),
                 ('listener', 'delete')),
                (lambda: self.sdk.delete_pool(pool), ('pool', 'delete'))):
            kind, action = change
            more = {'pool_id': pool} if kind in (
                'member', 'healthmonitor') else {}
            document = self.check(
                made, document, call, object=kind, action=action,
                object_id=made[kind], **more)
