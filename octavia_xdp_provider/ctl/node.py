# SPDX-License-Identifier: Apache-2.0
"""Opens the node's datapath that options and configuration file name."""

import argparse
import ipaddress
import typing

from octavia_xdp_provider.config import options
from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.node import types


class Place(typing.NamedTuple):
    pin_directory: str
    lock_file: str
    library: str


def locate(arguments: argparse.Namespace) -> Place:
    """Return where this node's state is, and the library for it.

    :raises ConfigurationError: the configuration file is invalid.
    """
    conf = options.load(config_files=arguments.config_file,
                        prog='octavia-xdp-ctl')
    return Place(arguments.pin_directory or conf.datapath.pin_directory,
                 arguments.lock_file or run_directory.RunDirectory(conf).lock,
                 arguments.library or conf.datapath.library)


def open_node(arguments: argparse.Namespace) -> inspection.Inspection:
    """Open the datapath that is pinned on this node.

    :raises ConfigurationError: the configuration file is invalid.
    :raises DatapathError: there is none, or it is of another version.
    """
    place = locate(arguments)
    return inspection.Inspection(place.pin_directory, place.lock_file,
                                 library=place.library)


def matches(arguments: argparse.Namespace, key: types.Key) -> bool:
    """Return whether the options select a service."""
    return (arguments.vip in (None, key.address)
            and arguments.protocol in (None, key.protocol)
            and arguments.port in (None, key.port))


def are_given(arguments: argparse.Namespace) -> bool:
    """Return whether the options select some services only."""
    return any(getattr(arguments, name, None) is not None
               for name in ('vip', 'protocol', 'port'))


def address(text: str) -> str:
    """Parse an address argument to its canonical spelling."""
    parsed = ipaddress.ip_address(text)
    if parsed.version == 6 and parsed.ipv4_mapped:
        raise ValueError(f'{text} is an IPv4-mapped address')
    return str(parsed)


def protocol(text: str) -> str:
    """Parse a protocol argument."""
    if text.upper() not in types.PROTOCOLS:
        raise ValueError(f'{text} is no protocol of services')
    return text.upper()


def port(text: str) -> int:
    """Parse a port argument."""
    number = int(text)
    if not 0 < number < 65536:
        raise ValueError(f'{text} is no port')
    return number
