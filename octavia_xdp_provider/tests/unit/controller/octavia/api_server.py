# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the HTTP APIs of Keystone and Octavia."""

import http.server
import json
import urllib.parse

import fixtures

from octavia_xdp_provider.tests.unit.controller.octavia import serving


class ApiServer(fixtures.Fixture):
    """Serves the objects of these attributes.

    ``balancers``: id → fields. ``trees``: id → answer of the status request.
    ``pools``: id → fields, plus ``members`` and ``monitor``.
    ``policies``: id of a listener → id of a policy → fields, whose ``rules``
    have all their fields.
    ``meddle(handler)``: called before each answer of Octavia; returns True if
    it has answered. ``requests``: (path, query) to Octavia, in order.
    ``sees_all``: whether the user may list other projects' load balancers.
    ``page_max``: longest page, or None without pagination.
    """

    def __init__(self):
        self.balancers = {}
        self.trees = {}
        self.pools = {}
        self.policies = {}
        self.meddle = lambda handler: False
        self.requests = []
        self.tokens = []
        self.page_max = 1000
        self.filters = True
        self.sees_all = True
        self.suffix = ''

    def _setUp(self):
        outer = self

        class Handler(_Handler):
            api = outer

        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = 'http://127.0.0.1:{}'.format(server.server_address[1])
        serving.start(self, server)

    def configuration(self, **more):
        options = dict({
            'auth_type': 'v3password', 'auth_url': f'{self.url}/v3',
            'username': 'octavia-xdp', 'password': 'secret',
            'user_domain_name': 'Default', 'project_name': 'service',
            'project_domain_name': 'Default', 'timeout': 5}, **more)
        return '[octavia]\n' + ''.join(
            f'{name} = {value}\n' for name, value in options.items())


class _Handler(http.server.BaseHTTPRequestHandler):
    api: ApiServer

    def log_message(self, *arguments):
        pass

    def answer(self, status, data, **headers):
        text = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(text)))
        self.send_header('Content-Type', 'application/json')
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        token = f'token-{len(self.api.tokens)}'
        self.api.tokens.append(token)
        self.answer(201, {'token': {
            'expires_at': '2999-01-01T00:00:00.000000Z', 'methods': [],
            'catalog': [{'type': 'load-balancer', 'name': 'octavia', 'id': 'x',
                         'endpoints': [{
                             'interface': 'internal', 'id': 'e',
                             'region': 'RegionOne', 'region_id': 'RegionOne',
                             'url': self.api.url + self.api.suffix}]}],
        }}, X_Subject_Token=token)

    def do_GET(self):
        parts = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(parts.query)
        self.api.requests.append((parts.path, query))
        if self.api.meddle(self):
            return
        base = f'{self.api.suffix or "/v2.0"}/lbaas/'
        path = parts.path.removeprefix(base).split('/')
        if not parts.path.startswith(base):
            self.answer(404, {'faultstring': 'no such path'})
        elif 'project_id' in query and not self.api.sees_all:
            self.answer(403, {'faultstring': 'policy does not allow this'})
        elif path == ['loadbalancers']:
            self.rows('loadbalancers', self.api.balancers.values(), query)
        elif path == ['pools']:
            self.rows('pools', self.api.pools.values(), query)
        elif path == ['listeners']:
            self.rows('listeners', [
                {'id': listener['id'], 'l7policies': [
                    {'id': key} for key in self.api.policies.get(
                        listener['id'], {})]}
                for tree in self.api.trees.values()
                for listener in tree['listeners']], query)
        elif path == ['l7policies']:
            self.rows('l7policies', [
                policy for listener_id, policies in self.api.policies.items()
                for policy in policies.values()
                if listener_id in query['listener_id']
                or not self.api.filters], query)
        elif path[0] == 'l7policies' and path[2] == 'rules':
            self.rows('rules', [
                rule for policies in self.api.policies.values()
                for key, policy in policies.items() if key == path[1]
                for rule in policy['rules']], query)
        elif path[0] == 'pools' and path[2] == 'members':
            self.rows('members', self.api.pools[path[1]]['members'], query)
        elif path[0] == 'healthmonitors':
            self.answer(200, {'healthmonitor': next(
                pool['monitor'] for pool in self.api.pools.values()
                if pool.get('healthmonitor_id') == path[1])})
        elif path[1] not in self.api.balancers:
            self.answer(404, {
                'faultcode': 'Client', 'debuginfo': None,
                'faultstring': f'Load Balancer {path[1]} not found.'})
        elif path[2:] == ['status']:
            self.answer(200, {'statuses': {
                'loadbalancer': self.api.trees[path[1]]}})
        else:
            self.answer(200, {'loadbalancer': self.api.balancers[path[1]]})

    def rows(self, name, rows, query):
        rows = list(rows)
        if 'project_id' in query:
            rows = []
        if self.api.filters and 'provider' in query:
            rows = [row for row in rows
                    if row['provider'] == query['provider'][0]]
        answer = {}
        if self.api.page_max:
            limit = min(int(query['limit'][0]), self.api.page_max)
            if 'marker' in query:
                ids = [row['id'] for row in rows]
                rows = rows[ids.index(query['marker'][0]) + 1:]
            full = len(rows) >= limit
            rows = rows[:limit]
            answer[f'{name}_links'] = (
                [{'rel': 'next', 'href': 'x'}] if full else [])
        self.answer(200, dict(answer, **{name: rows}))
