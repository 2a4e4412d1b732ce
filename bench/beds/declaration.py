# SPDX-License-Identifier: Apache-2.0
"""A declared test bed, expanded to single hosts, links, addresses and routes.

reading.py makes it from a file; providers build a bed from it.
"""

from collections.abc import Mapping
import dataclasses
import pathlib
from typing import Any

NAMESPACES, GUEST, SSH = PROVIDERS = ('namespaces', 'guest', 'ssh')


@dataclasses.dataclass(frozen=True)
class Nic:
    """Settings of an interface; None and empty ones are left as they are.

    :param queues: number of receive queues and of transmit queues.
    :param offloads: by their names in ethtool -k.
    :param rss_equal: number of queues to spread over.
    :param rss_fields: fields of the hash by protocol, as in ethtool -N.
    :param rings: numbers of descriptors, by 'rx' and 'tx'.
    :param receive_xdp: accept frames sent by an XDP program at the other end
        of a veth pair although this end has no program.
    """

    mtu: int = 1500
    queues: int | None = None
    offloads: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    rss_equal: int | None = None
    rss_fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rings: Mapping[str, int] = dataclasses.field(default_factory=dict)
    receive_xdp: bool = False


@dataclasses.dataclass(frozen=True)
class End:
    """A host's interface to a link.

    :param interface: the link's name, with a number if the host is an end of
        several links of this name. It is the interface's real name in guests
        and namespaces.
    :param addresses: with prefix lengths.
    """

    host: str
    interface: str
    addresses: tuple[str, ...]
    nic: Nic


@dataclasses.dataclass(frozen=True)
class Link:
    """A pair of hosts, or a layer 2 segment of several.

    :param name: as declared; shared by all pairs of one declaration.
    """

    name: str
    ends: tuple[End, ...]
    segment: bool = False
    permanent_neighbours: bool = False


@dataclasses.dataclass(frozen=True)
class Route:
    """:param via: addresses of next hops, over which flows are spread."""

    to: str
    via: tuple[str, ...]
    mtu: int | None = None


@dataclasses.dataclass(frozen=True)
class Access:
    """How to reach a real machine.

    :param address: a host name or an address.
    :param key: file of the private key; None: keys of the user's SSH agent.
    :param host_key: public key of the machine; None: it is in known_hosts.
    :param interfaces: the machine's interface names by End.interface.
    :param variables: variables of this host for the playbook.
    """

    address: str
    interfaces: Mapping[str, str]
    port: int = 22
    user: str = 'root'
    key: pathlib.Path | None = None
    host_key: str | None = None
    variables: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Host:
    """:param group: the declared name, which hosts of `count` share."""

    name: str
    group: str
    role: str
    sysctl: Mapping[str, int | str]
    loopback: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    access: Access | None = None


@dataclasses.dataclass(frozen=True)
class Software:
    """The software under test, to which a scenario may add settings.

    Without version, packages and revision it is that of this checkout.

    :param version: version of packages from the machines' repository.
    :param packages: a folder with Debian packages.
    :param revision: git revision in this checkout to build packages from.
    """

    name: str | None = None
    version: str | None = None
    packages: pathlib.Path | None = None
    revision: str | None = None
    configuration: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Guest:
    """:param kernel: a kernel of tools/kernels.txt.
    :param parameters: parameters of the kernel's command line.
    :param memory: MiB.
    :param count_instructions: emulate the processors, with a clock that
        advances 1 ns for each instruction.
    """

    kernel: str = '6.12'
    parameters: str = ''
    memory: int = 2048
    cpus: int = 2
    count_instructions: bool = False


@dataclasses.dataclass(frozen=True)
class Provisioning:
    """How real machines are provisioned for a bed.

    :param known_hosts: a file, in addition to declared host keys.
    :param roles: roles of deploy/ansible by the role of hosts in the bed.
    :param playbook: used instead of roles; with neither nothing is installed.
    :param groups: groups of the playbook's inventory: names of hosts.
    :param variables: variables for all hosts of the playbook.
    """

    known_hosts: pathlib.Path | None = None
    roles: Mapping[str, str] = dataclasses.field(default_factory=dict)
    playbook: pathlib.Path | None = None
    groups: Mapping[str, tuple[str, ...]] = dataclasses.field(
        default_factory=dict)
    variables: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def installs(self) -> bool:
        """Whether anything is installed."""
        return bool(self.roles or self.playbook)


@dataclasses.dataclass(frozen=True)
class Bed:
    """:param hosts: by name, in the order of the declaration.
    :param content: contents of the file as JSON, for the fingerprint.
    """

    name: str
    path: pathlib.Path
    provider: str
    hosts: Mapping[str, Host]
    links: tuple[Link, ...]
    software: Software
    guest: Guest
    provisioning: Provisioning
    content: Mapping[str, Any]

    def ends(self, host: str) -> dict[str, tuple[Link, End]]:
        """Return (link, end) of a host by the interface's name."""
        return {end.interface: (link, end) for link in self.links
                for end in link.ends if end.host == host}
