# SPDX-License-Identifier: Apache-2.0
"""A control host with RabbitMQ and MariaDB only, for functional tests."""

from lab import parallel
from lab.control import host
from lab.control import mariadb
from lab.control import rabbitmq
from lab.control import secret

# Databases of tests begin with this.
TEST_DATABASES = r'xdp\_test\_%'


def up(lab):
    """Start both servers; the network comes with them."""
    host.make_network(lab)
    secret.generate(lab)
    parallel.together(lambda: host.step('RabbitMQ', rabbitmq.start, lab),
                      lambda: host.step('MariaDB', _start_database, lab))


def environment(lab):
    """The variables by which tests find the servers."""
    return {'OCTAVIA_XDP_TEST_TRANSPORT_URL': rabbitmq.url(lab),
            'OCTAVIA_XDP_TEST_DATABASE_URL': mariadb.url(lab, '')}


def _start_database(lab):
    mariadb.initialise(lab)
    mariadb.start(lab)
    mariadb.create_user(lab, [TEST_DATABASES])
