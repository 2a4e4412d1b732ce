# SPDX-License-Identifier: Apache-2.0
"""Copies of a load balancer, in Octavia's tables and in the controller's.

Octavia needs a second for each that is created through its API. A copy has
rows as those have that is ACTIVE, under ids and addresses of its own, but no
port in Neutron: it can be changed, and is never deleted through the API.
"""

import ipaddress
import json
import uuid

import pymysql.cursors
import sqlalchemy as sa

from bench.control import seed
from lab import namespaces
from lab import paths
from lab.control import mariadb
from lab.control import octavia
from lab.control import secret
from octavia_xdp_provider.common import options
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema

# Outside of what Neutron gives to others in this network.
VIPS = ipaddress.ip_network('2001:db8:113::1:0:0/96')
# Table → the column by which its rows belong to a load balancer or a pool.
_TABLES = {'load_balancer': 'id', 'vip': 'load_balancer_id',
           'pool': 'load_balancer_id', 'listener': 'load_balancer_id',
           'member': 'pool_id'}
_AT_ONCE = 100


def _store(lab):
    """The controller's; to be used within the lab's control host."""
    conf = options.load(
        config_files=[str(octavia.provider_configuration(lab))])
    return queries.Store(schema.context_manager(conf))


def are_reported(lab):
    """Whether nodes have reported all that they should have, and a
    controller has looked at it."""
    with namespaces.inside(lab, paths.CONTROL):
        found = _store(lab).figures()
    return not found.due and all(
        one.placements.keys() <= {'ok'} for one in found.nodes)


def clone(lab, key, number, hosts):
    """Copy a load balancer that is ACTIVE. Returns ids of the copies."""
    with namespaces.inside(lab, paths.CONTROL):
        store = _store(lab)
        rows = _rows(lab, key)
        with store._reading_rows() as opened:
            ours = opened.execute(sa.select(models.LoadBalancer.__table__).
                                  where(models.LoadBalancer.id == key)).one()
        texts = [_replacements(rows, copy) for copy in range(number)]
        for start in range(0, number, _AT_ONCE):
            some = texts[start:start + _AT_ONCE]
            _insert(lab, rows, some)
            at = rows['load_balancer'][0]['updated_at'].isoformat()
            seed.seed(store, [json.loads(_replaced(ours.document, text))
                              for text in some], hosts, len(hosts),
                      [{'sent_statuses': _replaced(ours.sent_statuses, text),
                        'listed_at': at, 'compared_at': at}
                       for text in some])
    return [text[key] for text in texts]


def _connect(lab):
    return pymysql.connect(
        host=mariadb.ADDRESS, port=mariadb.PORT, user='lab',
        password=secret.password(lab, 'database'), database='octavia',
        autocommit=True, cursorclass=pymysql.cursors.DictCursor)


def _rows(lab, key):
    """Table → rows of a load balancer."""
    found, owners = {}, {'load_balancer_id': [key], 'id': [key]}
    connection = _connect(lab)
    with connection, connection.cursor() as cursor:
        for table, column in _TABLES.items():
            cursor.execute(
                f'SELECT * FROM {table} WHERE {column} IN %s',  # noqa: S608
                [owners[column]])
            found[table] = list(cursor.fetchall())
            if table == 'pool':
                owners['pool_id'] = [row['id'] for row in found[table]]
    return found


def _replacements(rows, copy):
    """What stands in a copy in place of what is in the rows."""
    found = {row['id']: str(uuid.uuid4()) for some in rows.values()
             for row in some if 'id' in row}
    vip, = rows['vip']
    found[vip['port_id']] = str(uuid.uuid4())
    found[vip['ip_address']] = str(VIPS[copy + 1])
    return found


def _replaced(text, replacements):
    for before, after in replacements.items():
        # Whole values: an address is the beginning of others.
        text = text.replace(f'"{before}"', f'"{after}"').replace(
            f' {before}"', f' {after}"')
    return text


def _insert(lab, rows, texts):
    connection = _connect(lab)
    with connection, connection.cursor() as cursor:
        for table, some in rows.items():
            columns = list(some[0])
            marks = ', '.join(['%s'] * len(columns))
            cursor.executemany(
                f'INSERT INTO {table} '  # noqa: S608
                f'({", ".join(columns)}) VALUES ({marks})',
                [[text.get(row[name], row[name]) for name in columns]
                 for text in texts for row in some])
