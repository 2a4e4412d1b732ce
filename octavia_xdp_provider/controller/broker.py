# SPDX-License-Identifier: Apache-2.0
"""Who may do what on the message broker, RabbitMQ.

The driver and the controllers talk in one virtual host, each LB node and the
controllers in one of the node's own. A node's user may use no other: a node
that was taken over reaches neither the driver's calls nor another node's,
and what comes out of its virtual host is its word only. It may declare the few
names that its agent uses and no other, and limits bound what is in its queues,
so that it cannot fill the broker's memory.

What stands here once becomes commands for an operator, or definitions that
RabbitMQ loads (https://www.rabbitmq.com/docs/definitions).
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

from octavia_xdp_provider.common import queue_names

CONTROL_VHOST = 'octavia-xdp'
CONTROLLER_USER = 'octavia-xdp-controller'
DRIVER_USER = 'octavia-xdp-driver'

# What [DEFAULT] host of a node may be: part of names on the broker.
HOST_PATTERN = re.compile(r'[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?')

ALL = '.*'
# Of a node's virtual host. A node has a connection or two for each process
# and way, each controller as many. A node's queues are queue_names.NUMBERS of
# two kinds and three more; those of a controller that ended stay for half an
# hour, and it may be started again and again.
CONNECTIONS_MAX = 64
QUEUES_MAX = 128
# A node's reports are small; what does not fit is refused to whom sends it.
QUEUE_BYTES_MAX = 16 * 1024 * 1024
POLICY = 'octavia-xdp-limits'
_QUEUE_LIMITS = {'max-length-bytes': QUEUE_BYTES_MAX,
                 'overflow': 'reject-publish'}
_VHOST_LIMITS = {'max-connections': CONNECTIONS_MAX,
                 'max-queues': QUEUES_MAX}


@dataclasses.dataclass(frozen=True)
class User:
    """A user of the broker. ``password``: None for one that exists."""

    name: str
    password: str | None = None


@dataclasses.dataclass(frozen=True)
class VirtualHost:
    """A virtual host, and who may use it.

    ``users``: name → a regular expression of the queues and exchanges that
    this one may declare, write to and read. ``limited``: by what a node could
    do to the broker.
    """

    name: str
    users: dict[str, str]
    limited: bool


@dataclasses.dataclass(frozen=True)
class Command:
    """Arguments of ``rabbitmqctl``, and what it reads from its standard input:
    a password among the arguments is seen by all users of the host."""

    words: tuple[str, ...]
    stdin: str | None = None


@dataclasses.dataclass(frozen=True)
class Grants:
    """Users and virtual hosts to be made."""

    users: tuple[User, ...]
    virtual_hosts: tuple[VirtualHost, ...]


def node_vhost(host: str) -> str:
    """The virtual host of a node, and the name of its user."""
    return f'octavia-xdp-node-{host}'


def host_vhost(host: str) -> str:
    """The same of a hypervisor, whose name may be that of an LB node."""
    return f'octavia-xdp-host-{host}'


def new_password() -> str:
    """Digits and letters: rabbitmqctl takes what begins with "-" for an
    option, and it needs no quoting in a URL."""
    return secrets.token_hex(24)


def for_control(controller_password: str, driver_password: str) -> Grants:
    """What driver and controllers need."""
    return Grants(
        (User(CONTROLLER_USER, controller_password),
         User(DRIVER_USER, driver_password)),
        (VirtualHost(CONTROL_VHOST, {CONTROLLER_USER: ALL, DRIVER_USER: ALL},
                     False),))


def for_node(host: str, password: str) -> Grants:
    """What a node needs, once for_control() is done."""
    return _of_one(node_vhost(host), password, queue_names.pattern(
        host, queue_names.NODE_TOPIC))


def for_host(host: str, password: str) -> Grants:
    """What a hypervisor needs."""
    return _of_one(host_vhost(host), password, queue_names.pattern(
        host, queue_names.HOST_TOPIC))


def _of_one(name: str, password: str, names: str) -> Grants:
    return Grants((User(name, password),), (VirtualHost(
        name, {name: names, CONTROLLER_USER: ALL}, True),))


def commands(grants: Grants, again: bool = False) -> list[Command]:
    """What makes them, in this order.

    :param again: the users are there and get a new password; what they have
        connected with the old one ends.
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
    """The same, to take everything back that a node or hypervisor had.

    :param name: of its virtual host.
    """
    return [Command(('delete_user', name)), Command(('delete_vhost', name))]


def definitions(*many: Grants) -> dict[str, Any]:
    """The same as a file that RabbitMQ loads (``load_definitions``)."""
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
    """``transport_url`` of a node, from that of the controllers.

    :param template: ``[nodes] transport_url``: same brokers, other user.
    """
    return transport_url(template, node_vhost(host), password)


def transport_url(template: str, vhost: str, password: str) -> str:
    """The same of whoever has a virtual host of its own.

    :param template: ``[nodes] transport_url``: same brokers, other user.
    """
    parts = urllib.parse.urlsplit(template)
    name = urllib.parse.quote(vhost, safe='')
    secret = urllib.parse.quote(password, safe='')
    brokers = ','.join(f'{name}:{secret}@{broker.rpartition("@")[2]}'
                       for broker in parts.netloc.split(','))
    return urllib.parse.urlunsplit(
        (parts.scheme, brokers, '/' + name, parts.query, ''))
