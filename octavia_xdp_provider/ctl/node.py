# SPDX-License-Identifier: Apache-2.0
"""The node's datapath, as options and the configuration file name it."""

import ipaddress
import typing

from octavia_xdp_provider.common import options
from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.node import types


class Place(typing.NamedTuple):
    pin_directory: str
    lock_file: str
    library: str


def locate(arguments):
    """Where this node's state is, and the library for it.

    :raises ConfigurationError: the configuration file cannot be used.
    """
    conf = options.load(config_files=arguments.config_file,
                        prog='octavia-xdp-ctl')
    return Place(arguments.pin_directory or conf.datapath.pin_directory,
                 arguments.lock_file or run_directory.RunDirectory(conf).lock,
                 arguments.library or conf.datapath.library)


def open_node(arguments):
    """What is pinned on this node.

    :raises ConfigurationError: the configuration file cannot be used.
    :raises DatapathError: nothing is there, or it is not for us.
    """
    place = locate(arguments)
    return inspection.Inspection(place.pin_directory, place.lock_file,
                                 library=place.library)


def matches(arguments, key):
    """Whether a service is one of those that the options ask for."""
    return ((arguments.vip is None or key.address == arguments.vip)
            and (arguments.protocol is None
                 or key.protocol == arguments.protocol)
            and (arguments.port is None or key.port == arguments.port))


def are_given(arguments):
    """Whether the options ask for some of the services only."""
    return any(getattr(arguments, name, None) is not None
               for name in ('vip', 'protocol', 'port'))


def address(text):
    """An argument that is an address, in its one spelling."""
    parsed = ipaddress.ip_address(text)
    if parsed.version == 6 and parsed.ipv4_mapped:
        raise ValueError(f'{text} is an IPv4-mapped address')
    return str(parsed)


def protocol(text):
    """An argument that is a protocol of services."""
    if text.upper() not in types.PROTOCOLS:
        raise ValueError(f'{text} is no protocol of services')
    return text.upper()


def port(text):
    """An argument that is a port."""
    number = int(text)
    if not 0 < number < 65536:
        raise ValueError(f'{text} is no port')
    return number
