# SPDX-License-Identifier: Apache-2.0
"""A control host with broker and database servers, for functional tests."""

from lab import parallel
from lab.control import certificates
from lab.control import host
from lab.control import mariadb
from lab.control import postgresql
from lab.control import rabbitmq
from lab.control import secret

# Matches the databases of tests.
TEST_DATABASES = r'xdp\_test\_%'


def up(lab):
    """Start the servers and their network."""
    host.make_network(lab)
    secret.generate(lab)
    certificates.make(lab)
    parallel.together(lambda: host.step('RabbitMQ', rabbitmq.start, lab),
                      lambda: host.step('MariaDB', _start_database, lab),
                      lambda: host.step('PostgreSQL', postgresql.start, lab))


def environment(lab):
    """Return the variables with which tests find the servers."""
    return {'OCTAVIA_XDP_TEST_TRANSPORT_URL': rabbitmq.url(lab),
            'OCTAVIA_XDP_TEST_DRIVER_URL': rabbitmq.driver_url(lab),
            'OCTAVIA_XDP_TEST_CONTROLLER_URL': rabbitmq.controller_url(lab),
            'OCTAVIA_XDP_TEST_NODES_URL': rabbitmq.nodes_url(lab),
            'OCTAVIA_XDP_TEST_NODE_URLS': ' '.join(
                rabbitmq.node_url(lab, node) for node in rabbitmq.NODES),
            'OCTAVIA_XDP_TEST_RABBITMQCTL': rabbitmq.control_command(lab),
            'OCTAVIA_XDP_TEST_CA_FILE': str(certificates.authority(lab)),
            'OCTAVIA_XDP_TEST_DATABASE_URL': mariadb.url(lab, ''),
            'OCTAVIA_XDP_TEST_POSTGRESQL_URL': postgresql.url(
                lab, 'postgres')}


def _start_database(lab):
    mariadb.initialise(lab)
    mariadb.start(lab)
    mariadb.create_user(lab, [TEST_DATABASES])
