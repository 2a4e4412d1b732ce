# SPDX-License-Identifier: Apache-2.0
"""Users, virtual hosts and permissions on the message broker, RabbitMQ.

The driver and the controllers share a virtual host, and each LB node shares
its own one with the controllers. A node's user may use no other: a compromised
node reaches neither the driver's calls nor another node's, and messages in its
virtual host are known to be its own. It may only declare the few names that
its agent uses, and limits bound its queues, so that it cannot fill the
broker's memory.

The same data becomes commands for an operator, or definitions that RabbitMQ
loads (https://www.rabbitmq.com/docs/definitions).
"""

import base64
import dataclasses
import hashlib
import json
import os
import re
import secrets
from typing import Any
import urllib.parse

from octavia_xdp_provider.contracts import queue_names

CONTROL_VHOST = 'octavia-xdp'
CONTROLLER_USER = 'octavia-xdp-controller'
DRIVER_USER = 'octavia-xdp-driver'

# Valid [DEFAULT] host of a node, which is part of names on the broker.
HOST_PATTERN = re.compile(r'[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?')

ALL = '.*'
# Limits of a node's virtual host. A node has a connection or two per process
# and direction, and so has each controller. A node's queues are
# queue_names.NUMBERS of two kinds and three more. Those of a controller that
# has ended stay for half an hour, and it may restart many times.
CONNECTIONS_MAX = 64
QUEUES_MAX = 128
# A node's reports are small. A full queue refuses messages to the sender.
QUEUE_BYTES_MAX = 16 * 1024 * 1024
POLICY = 'octavia-xdp-limits'
_QUEUE_LIMITS = {'max-length-bytes': QUEUE_BYTES_MAX,
                 'overflow': 'reject-publish'}
_VHOST_LIMITS = {'max-connections': CONNECTIONS_MAX,
                 'max-queues': QUEUES_MAX}


@dataclasses.dataclass(frozen=True)
class User:
    """A user of the broker. ``password``: None for an existing user."""

    name: str
    password: str | None = None


@dataclasses.dataclass(frozen=True)
class VirtualHost:
    """A virtual host and its users.

    ``users``: name → regular expression of the queues and exchanges that the
    user may declare, write to and read. ``limited``: whether limits protect
    the broker from a node.
    """

    name: str
    users: dict[str, str]
    limited: bool


@dataclasses.dataclass(frozen=True)
class Command:
    """Arguments and standard input of ``rabbitmqctl``. A password is passed as
    input, as all users of the host can see arguments."""

    words: tuple[str, ...]
    stdin: str | None = None


@dataclasses.dataclass(frozen=True)
class Grants:
    """Users and virtual hosts to create."""

    users: tuple[User, ...]
    virtual_hosts: tuple[VirtualHost, ...]


def node_vhost(host: str) -> str:
    """Return the name of an LB node's virtual host and user."""
    return f'octavia-xdp-node-{host}'


def host_vhost(host: str) -> str:
    """Return that of a hypervisor, whose name may be that of an LB node."""
    return f'octavia-xdp-host-{host}'


def new_password() -> str:
    """Return a password of digits and letters, which a URL need not quote and
    rabbitmqctl does not take for an option."""
    return secrets.token_hex(24)


def for_control(controller_password: str, driver_password: str) -> Grants:
    """Return the grants of the driver and the controllers."""
    return Grants(
        (User(CONTROLLER_USER, controller_password),
         User(DRIVER_USER, driver_password)),
        (VirtualHost(CONTROL_VHOST, {CONTROLLER_USER: ALL, DRIVER_USER: ALL},
                     False),))


def for_node(host: str, password: str) -> Grants:
    """Return the grants of a node, in addition to for_control()."""
    return _of_one(node_vhost(host), password, queue_names.pattern(
        host, queue_names.NODE_TOPIC))


def for_host(host: str, password: str) -> Grants:
    """Return the grants of a hypervisor."""
    return _of_one(host_vhost(host), password, queue_names.pattern(
        host, queue_names.HOST_TOPIC))


def _of_one(name: str, password: str, names: str) -> Grants:
    return Grants((User(name, password),), (VirtualHost(
        name, {name: names, CONTROLLER_USER: ALL}, True),))


def commands(grants: Grants, again: bool = False) -> list[Command]:
    """Return the commands that create grants, in their order.

    :param again: the users exist and get a new password, which closes their
        connections.
    """
    result = []
    for user in grants.users:
        if user.password is None:
            continue
        verb = 'change_password' if again else 'add_user'
        result.append(Command((verb, user.name), user.password))
        if again:
            result.append(Command(('close_all_user_connections', user.name,
                                   'its password was changed')))
    for vhost in grants.virtual_hosts:
        result.append(Command(('add_vhost', vhost.name)))
        if vhost.limited:
            result.append(Command(('set_vhost_limits', '-p', vhost.name,
                                   json.dumps(_VHOST_LIMITS))))
            result.append(Command((
                'set_policy', '-p', vhost.name, '--apply-to', 'queues',
                POLICY, ALL, json.dumps(_QUEUE_LIMITS))))
        result.extend(
            Command(('set_permissions', '-p', vhost.name, user,
                     names, names, names))
            for user, names in vhost.users.items())
    return result


def commands_to_remove(name: str) -> list[Command]:
    """Return the commands that remove a node's or hypervisor's grants.

    :param name: name of its virtual host.
    """
    return [Command(('delete_user', name)), Command(('delete_vhost', name))]


def definitions(*many: Grants) -> dict[str, Any]:
    """Return grants as a file that RabbitMQ loads (``load_definitions``)."""
    users = [user for grants in many for user in grants.users
             if user.password is not None]
    vhosts = [vhost for grants in many for vhost in grants.virtual_hosts]
    return {
        'users': [{'name': user.name, 'tags': '',
                   'password_hash': _hash(user.password or ''),
                   'hashing_algorithm': 'rabbit_password_hashing_sha256'}
                  for user in users],
        'vhosts': [{'name': vhost.name} for vhost in vhosts],
        'permissions': [
            {'user': user, 'vhost': vhost.name, 'configure': names,
             'write': names, 'read': names}
            for vhost in vhosts for user, names in vhost.users.items()],
        'policies': [
            {'vhost': vhost.name, 'name': POLICY, 'pattern': ALL,
             'apply-to': 'queues', 'definition': _QUEUE_LIMITS,
             'priority': 0}
            for vhost in vhosts if vhost.limited],
        'parameters': [
            {'component': 'vhost-limits', 'vhost': vhost.name,
             'name': 'limits', 'value': _VHOST_LIMITS}
            for vhost in vhosts if vhost.limited],
    }


def _hash(password: str) -> str:
    """https://www.rabbitmq.com/docs/passwords#this-is-the-algorithm"""
    salt = os.urandom(4)
    digest = hashlib.sha256(salt + password.encode()).digest()
    return base64.b64encode(salt + digest).decode()


def node_transport_url(template: str, host: str, password: str) -> str:
    """Return a node's ``transport_url``.

    :param template: ``[nodes] transport_url``: same brokers, other user.
    """
    return transport_url(template, node_vhost(host), password)


def transport_url(template: str, vhost: str, password: str) -> str:
    """Return the ``transport_url`` of the user of a virtual host.

    :param template: ``[nodes] transport_url``: same brokers, other user.
    """
    parts = urllib.parse.urlsplit(template)
    name = urllib.parse.quote(vhost, safe='')
    secret = urllib.parse.quote(password, safe='')
    brokers = ','.join(f'{name}:{secret}@{broker.rpartition("@")[2]}'
                       for broker in parts.netloc.split(','))
    return urllib.parse.urlunsplit(
        (parts.scheme, brokers, '/' + name, parts.query, ''))
