# SPDX-License-Identifier: Apache-2.0
"""Parse option values that oslo.config's types cannot check."""

import ipaddress

from oslo_config import cfg
from oslo_utils import uuidutils

from octavia_xdp_provider.contracts import address_policy


class ConfigurationError(Exception):
    """A configuration file holds a value that cannot be used."""


def networks(conf: cfg.ConfigOpts, group: str, name: str
             ) -> list[address_policy.Network]:
    """Return the option as a list of ``ipaddress`` networks.

    :raises ConfigurationError: an entry is not a network in CIDR notation.
    """
    result = []
    for text in conf[group][name]:
        try:
            result.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise ConfigurationError(
                f'[{group}] {name}: {error}') from error
    return result


def uuids(conf: cfg.ConfigOpts, group: str, name: str) -> list[str]:
    """Return the option as a list of UUIDs.

    :raises ConfigurationError: an entry is not a lower-case UUID.
    """
    for text in conf[group][name]:
        if not uuidutils.is_uuid_like(text) or text != text.lower():
            raise ConfigurationError(
                f'[{group}] {name}: {text!r} is no UUID as Neutron shows it')
    return list(conf[group][name])


def host_address(text: str) -> address_policy.Address:
    """Parse an address that can belong to a host.

    :raises ValueError: the text is not such an address.
    """
    address = ipaddress.ip_address(text)
    if address.is_unspecified or address.is_multicast or address.is_loopback:
        raise ValueError(f'{text} is no address of a host')
    return address


def check_address(conf: cfg.ConfigOpts, group: str, name: str, version: int
                  ) -> None:
    """Check that the option, if set, is a host address of this IP version.

    :raises ConfigurationError: it is not.
    """
    text = conf[group][name]
    if not text:
        return
    try:
        actual = host_address(text).version
    except ValueError as error:
        raise ConfigurationError(f'[{group}] {name}: {error}') from error
    if actual != version:
        raise ConfigurationError(
            f'[{group}] {name}: {text} is not an IPv{version} address')


def listening_address(conf: cfg.ConfigOpts, group: str, name: str
                      ) -> tuple[str, int] | None:
    """Return the address and port of an ADDR:PORT option, None if not set.

    :raises ConfigurationError: it has another form.
    """
    text = conf[group][name]
    if not text:
        return None
    host, _colon, port = text.rpartition(':')
    bracketed = host.startswith('[') and host.endswith(']')
    try:
        address = ipaddress.ip_address(host[1:-1] if bracketed else host)
    except ValueError as error:
        raise ConfigurationError(f'[{group}] {name}: {error}') from error
    if (bracketed != (address.version == 6)
            or not port.isdecimal() or not 0 < int(port) < 65536):
        raise ConfigurationError(
            f'[{group}] {name}: {text!r} is no address and port')
    return str(address), int(port)
