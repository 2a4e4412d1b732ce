# SPDX-License-Identifier: Apache-2.0
"""AMQP as anybody may speak it who has a transport URL, without oslo."""

import ssl

import kombu
from kombu.utils import url as kombu_url


def to(url, vhost, ca_file):
    """A kombu.Connection over TLS, not yet connected.

    :param url: transport URL, whose virtual host does not count.
    """
    parts = kombu_url.parse_url(url.replace('rabbit://', 'amqp://'))
    return kombu.Connection(
        hostname=parts['hostname'], port=parts['port'],
        userid=parts['userid'], password=parts['password'],
        virtual_host=vhost, connect_timeout=60,
        ssl={'ca_certs': ca_file, 'cert_reqs': ssl.CERT_REQUIRED})
