# SPDX-License-Identifier: Apache-2.0
"""Octavia's API as used by tenants, and statuses from its database.

Polling the API would compete with what is measured, so statuses are read from
Octavia's database.
"""

import http.client
import json
import time

import pymysql

from lab import cloud
from lab import namespaces
from lab import paths
from lab.control import mariadb
from lab.control import octavia
from lab.control import secret

POLL_S = 0.005
PATIENCE_S = 180.0
PORT = 80


class Failed(Exception):
    """Octavia refuses a request, or something does not happen in time."""


class Api:
    """Calls as a tenant; thread-safe."""

    def __init__(self, lab):
        self._lab = lab
        with namespaces.inside(lab, paths.CONTROL):
            admin = cloud.connect(lab, cloud.ADMIN)
            admin.set_network_quotas(cloud.TENANT, ports=-1)
            user = cloud.connect(lab)
            self._token = user.auth_token
            self.subnet_id = user.network.find_subnet('vips-v6').id

    def request(self, method, path, body=None):
        """Return the JSON of the answer and its time, time.monotonic()."""
        with namespaces.inside(self._lab, paths.CONTROL):
            connection = http.client.HTTPConnection(
                paths.CONTROL_ADDRESS, octavia.PORT, timeout=PATIENCE_S)
            connection.connect()
        try:
            connection.request(
                method, f'/v2.0/lbaas/{path}',
                None if body is None else json.dumps(body),
                {'X-Auth-Token': self._token,
                 'Content-Type': 'application/json'})
            response = connection.getresponse()
            text = response.read()
            came = time.monotonic()
        finally:
            connection.close()
        if response.status >= 300:
            raise Failed(f'{method} {path}: {response.status} '
                         f'{text[:500].decode(errors="replace")}')
        return (json.loads(text) if text else None), came

    def create(self, name, members=()):
        """Create a load balancer (populated with members); return its id."""
        wanted = {'name': name, 'provider': 'xdp',
                  'vip_subnet_id': self.subnet_id}
        if members:
            wanted['listeners'] = [{
                'name': name, 'protocol': 'TCP', 'protocol_port': PORT,
                'default_pool': {
                    'name': name, 'protocol': 'TCP',
                    'lb_algorithm': 'SOURCE_IP_PORT', 'members': [
                        {'address': address, 'protocol_port': PORT}
                        for address in members]}}]
        answer, _came = self.request('POST', 'loadbalancers',
                                     {'loadbalancer': wanted})
        return answer['loadbalancer']['id']

    def delete(self, load_balancer_id):
        self.request('DELETE',
                     f'loadbalancers/{load_balancer_id}?cascade=true')

    def vip(self, load_balancer_id):
        answer, _came = self.request(
            'GET', f'loadbalancers/{load_balancer_id}')
        return answer['loadbalancer']['vip_address']

    def member(self, load_balancer_id):
        """Return (path, address) of one of its members."""
        answer, _came = self.request(
            'GET', f'pools?loadbalancer_id={load_balancer_id}')
        pool = answer['pools'][0]['id']
        answer, _came = self.request('GET', f'pools/{pool}/members?limit=1')
        member = answer['members'][0]
        return f'pools/{pool}/members/{member["id"]}', member['address']


class Statuses:
    """Provisioning statuses from the database; not thread-safe."""

    def __init__(self, lab):
        with namespaces.inside(lab, paths.CONTROL):
            self._connection = pymysql.connect(
                host=mariadb.ADDRESS, port=mariadb.PORT, user='lab',
                password=secret.password(lab, 'database'),
                database='octavia', autocommit=True)

    def close(self):
        self._connection.close()

    def of(self, ids):
        """Return provisioning statuses by id, of existing load balancers."""
        if not ids:
            return {}
        with self._connection.cursor() as cursor:
            cursor.execute(
                'SELECT id, provisioning_status '  # noqa: S608
                'FROM load_balancer WHERE id '
                f'IN ({", ".join(["%s"] * len(ids))})',
                list(ids))
            return dict(cursor.fetchall())

    def wait(self, ids, wanted, patience_s=PATIENCE_S, poll_s=POLL_S):
        """Wait for a status; return when each had it, in monotonic time.

        Load balancers that do not exist count as DELETED.
        """
        deadline = time.monotonic() + patience_s
        left, reached = set(ids), {}
        while left:
            statuses = self.of(left)
            now = time.monotonic()
            for key in list(left):
                status = statuses.get(key, 'DELETED')
                if status == wanted:
                    reached[key] = now
                    left.discard(key)
                elif status == 'ERROR':
                    raise Failed(f'load balancer {key} is in ERROR')
            if now > deadline:
                raise Failed(f'{len(left)} load balancers are not {wanted} '
                             f'after {patience_s} s')
            if left:
                time.sleep(poll_s)
        return reached
