# SPDX-License-Identifier: Apache-2.0
"""A test bed as it is declared: each host, link, address and route by itself.

reading.py makes it from a file, providers make a bed of it.
"""

from collections.abc import Mapping
import dataclasses
import pathlib
from typing import Any

NAMESPACES, GUEST, SSH = PROVIDERS = ('namespaces', 'guest', 'ssh')


@dataclasses.dataclass(frozen=True)
class Nic:
    """Settings of an interface; None and empty: as the host has it.

    :param queues: of receiving, and as many of sending.
    :param offloads: by their names of ethtool -k.
    :param rss_equal: spread over so many queues.
    :param rss_fields: what the hash is of, by protocol, as of ethtool -N.
    :param rings: of descriptors, by 'rx' and 'tx'.
    :param receive_xdp: take what an XDP program at the other end of a veth
        pair sends, though there is no program here.
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

    :param interface: its name among those of the host: the link's, with a
        number if the host is at more than one of this name. Guests and
        namespaces call the interface so.
    :param addresses: with prefix lengths.
    """

    host: str
    interface: str
    addresses: tuple[str, ...]
    nic: Nic


@dataclasses.dataclass(frozen=True)
class Link:
    """A pair of hosts, or a segment: one layer 2 of several.

    :param name: as declared; pairs of several hosts share it.
    """

    name: str
    ends: tuple[End, ...]
    segment: bool = False
    permanent_neighbours: bool = False


@dataclasses.dataclass(frozen=True)
class Route:
    """:param via: addresses; of several each takes a share of the flows."""

    to: str
    via: tuple[str, ...]
    mtu: int | None = None


@dataclasses.dataclass(frozen=True)
class Access:
    """How a real machine is reached.

    :param address: a name or an address.
    :param key: private, a file; None: what the user's agent offers.
    :param host_key: public; None: it is in known_hosts.
    :param interfaces: the names that the machine has for its ends, by those
        of End.interface.
    :param variables: of this host, for the playbook.
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
    """:param group: the name declared; with `count`, that of several hosts.
    """

    name: str
    group: str
    role: str
    sysctl: Mapping[str, int | str]
    loopback: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    access: Access | None = None


@dataclasses.dataclass(frozen=True)
class Software:
    """What is under test; a scenario may say more.

    Without version, packages and revision: that of this checkout.

    :param version: of packages that machines get from their repository.
    :param packages: a folder with Debian packages.
    :param revision: of git, in this checkout, that packages are built of.
    """

    name: str | None = None
    version: str | None = None
    packages: pathlib.Path | None = None
    revision: str | None = None
    configuration: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Guest:
    """:param kernel: of tools/kernels.txt.
    :param parameters: of the kernel's command line.
    :param memory: MiB.
    :param count_instructions: its clock counts what its processors have done,
        1 ns for each instruction; they are emulated.
    """

    kernel: str = '6.12'
    parameters: str = ''
    memory: int = 2048
    cpus: int = 2
    count_instructions: bool = False


@dataclasses.dataclass(frozen=True)
class Provisioning:
    """What is done to real machines before they are a bed.

    :param known_hosts: a file, beside the host keys that are declared.
    :param roles: of deploy/ansible, by the role that hosts have in the bed.
    :param playbook: in place of roles. With neither nothing is installed.
    :param groups: of the inventory: host names, of hosts and of groups here.
    :param variables: for all hosts of the playbook.
    """

    known_hosts: pathlib.Path | None = None
    roles: Mapping[str, str] = dataclasses.field(default_factory=dict)
    playbook: pathlib.Path | None = None
    groups: Mapping[str, tuple[str, ...]] = dataclasses.field(
        default_factory=dict)
    variables: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def installs(self) -> bool:
        """Whether there is anything to run."""
        return bool(self.roles or self.playbook)


@dataclasses.dataclass(frozen=True)
class Bed:
    """:param hosts: by name, in the order of the declaration.
    :param content: what the file says, JSON, for the fingerprint.
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
        """Those of a host, by the name of the interface."""
        return {end.interface: (link, end) for link in self.links
                for end in link.ends if end.host == host}
