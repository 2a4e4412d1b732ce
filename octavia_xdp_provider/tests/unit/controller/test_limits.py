# SPDX-License-Identifier: Apache-2.0
"""How large a load balancer, and all of a project, may become."""

from unittest import mock
import uuid

from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.controller.store import base as database
from octavia_xdp_provider.controller.store import limits
from octavia_xdp_provider.controller.store import requests
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.controller import requesting

_STEP = limits.in_steps(1)


class TestLimits(store_base.StoreTestCase):

    def request(self, change, **sizes):
        request = str(uuid.uuid4())
        self.store.requests.add(change, request, limits=limits.Limits(**sizes))
        return request

    def create(self, number, project='p', members=2, **sizes):
        """A load balancer whose pool no listener uses, so that it needs
        nothing of any node."""
        key = f'lb{number}'
        tree = base.numbered_tree(number, project_id=project)
        tree['listeners'] = {}
        tree['pools'][f'pool{number}']['members'] = {
            f'm{index}': base.member(f'198.18.10.{index + 1}')
            for index in range(members)}
        request = self.request({
            'object': 'loadbalancer', 'action': 'create', 'object_id': key,
            'load_balancer_id': key, 'fields': tree}, **sizes)
        self.store.load_balancers.promote(key, request)

    def refused(self, function, *arguments, **more):
        error = self.assertRaises(errors.Refused, function, *arguments,
                                  **more)
        return error.option, str(error)

    def member(self, action, number, address=None):
        more = {'fields': base.member(address)} if address else {}
        return {'object': 'member', 'action': action,
                'object_id': f'm{number}', 'pool_id': 'pool1', **more}

    def test_members_of_pools_without_a_listener_count(self):
        option, text = self.refused(self.create, 1, members=3,
                                    load_balancer_members=2)
        self.assertEqual('members', option)
        self.assertIn('would have 3 members, and the operator allows 2', text)
        self.create(1, load_balancer_members=2)
        self.refused(self.request, self.member('create', 9, '198.18.10.99'),
                     load_balancer_members=2)

    def test_too_large_load_balancer_may_shrink(self):
        self.create(1, members=5)
        for limit in ({'load_balancer_members': 2}, {'project_members': 2}):
            self.request(self.member('delete', 1), **limit)
            self.request(self.member('create', 1, '198.18.10.99'), **limit)

    def test_members_of_a_project_are_summed(self):
        self.create(1, project_members=4)
        self.create(2, project='other', project_members=2)
        option, text = self.refused(self.create, 3, members=3,
                                    project_members=4)
        self.assertEqual('members', option)
        self.assertIn('the project would have 5 members', text)
        self.create(3, project_members=4)
        self.refused(self.create, 4, project_members=4)
        # Deleted load balancers do not count.
        request = self.request(requesting.deleted('lb3'))
        self.store.load_balancers.promote('lb3', request)
        self.store.load_balancers.forget('lb3')
        self.create(4, project_members=4)

    def test_bytes_of_a_load_balancer_are_limited(self):
        option, text = self.refused(self.create, 1, members=60,
                                    load_balancer_bytes=_STEP // 2)
        self.assertEqual('pools', option)
        self.assertIn(f'the operator allows {_STEP // 2}', text)
        self.create(1, load_balancer_bytes=_STEP // 2)
        many = {f'm{number}': base.member(f'198.18.10.{number + 1}')
                for number in range(200)}
        self.refused(self.request, {
            'object': 'member', 'action': 'replace', 'object_id': None,
            'pool_id': 'pool1', 'members': many},
            load_balancer_bytes=_STEP)

    def test_bytes_of_a_project_are_limited(self):
        self.create(1, project_bytes=2 * _STEP)
        self.create(2, project_bytes=2 * _STEP)
        self.refused(self.create, 3, project_bytes=2 * _STEP)
        self.create(3, project='other', project_bytes=2 * _STEP)

    def test_limits_have_their_options(self):
        conf = self.load('[limits]\nproject_members = 7\n')
        self.assertEqual(
            limits.Limits(8192, 4 * 1024 * 1024, 7, 128 * 1024 * 1024),
            limits.of(conf))


class TestLargeDocuments(requesting.RequestsTestCase):

    def setUp(self):
        super().setUp()
        self.steps = []
        draw, validate = database.draw, validation.validate
        for target, name, function in (
                (database, 'draw',
                 lambda session: (self.steps.append('draw'), draw(session))),
                (validation, 'validate',
                 lambda *arguments: (self.steps.append('validate'),
                                     validate(*arguments))),
                (requests, '_LARGE_BYTES', 0)):
            self.enterContext(mock.patch.object(target, name, function))

    def taken(self, change):
        self.steps.clear()
        self.request(change)
        return self.steps

    def members(self):
        pending = self.store.load_balancers.get('lb').pending
        return pending['expected']['pools']['pool']['members']

    def test_creation_is_validated_before_the_lock(self):
        self.assertEqual(['validate', 'draw'],
                         self.taken(requesting.created()))

    def test_change_of_a_large_document_is_validated_before_the_lock(self):
        self.store.load_balancers.create(base.document())
        self.assertEqual(['draw', 'validate'], self.taken(requesting.ADDED))
        self.assertEqual(['validate', 'draw'], self.taken(
            requesting.member('create', 'm4',
                              fields=base.member('198.18.10.14'))))
        self.assertEqual({'m1', 'm2', 'm4'}, self.members().keys())

    def test_change_of_a_stale_document_is_validated_again(self):
        self.store.load_balancers.create(base.document())
        self.request(requesting.ADDED)
        prepare = self.store.requests._prepare

        def late(change):
            prepared = prepare(change)
            self.store.load_balancers.change('lb', without_m1)
            return prepared

        def without_m1(document):
            del document['pools']['pool']['members']['m1']
            return document
        with mock.patch.object(self.store.requests, '_prepare', late):
            self.request(requesting.ADDED)
        self.assertEqual({'m2', 'm3'}, self.members().keys())

    def test_late_or_unknown_changes_are_refused_as_such_first(self):
        self.store.load_balancers.create(base.document())
        self.request(requesting.ADDED)
        bad = requesting.member('update', 'm9', fields={'weight': 1})
        self.assertRaises(errors.TooLate, self.request, bad, seconds=-1)
        self.assertRaises(errors.UnknownObject, self.request, bad)
