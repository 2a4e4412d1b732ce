# SPDX-License-Identifier: Apache-2.0
"""What this node shall announce into the fabric, and what it does announce.

The agent writes the wanted announcements as a whole file; the announcer
(see ``announcer.py``), a child of ExaBGP, makes ExaBGP match that file and
writes back what ExaBGP accepted and which BGP sessions are up. Both files
belong in a directory on a tmpfs: a node that was rebooted must announce
nothing before its datapath is loaded.
"""

import dataclasses
import fcntl
import ipaddress
import json
import pathlib

from octavia_xdp_provider.common import atomic_file

VERSION = 1

FILE_NAME = 'announcements.json'
STATUS_NAME = 'announced.json'
LOCK_NAME = 'announcer.lock'

_SELF = 'self'


class AnnouncementError(Exception):
    """An announcement is not allowed, or a file does not say what it is."""


@dataclasses.dataclass(frozen=True)
class Status:
    """What the announcer reports.

    `announced` holds the prefixes that ExaBGP sends to every neighbour whose
    session is up, `failed` says why a wanted prefix is not among them, and
    `error` why the file could not be read or ExaBGP not be asked.
    """

    announced: frozenset = frozenset()
    neighbours: dict = dataclasses.field(default_factory=dict)
    failed: dict = dataclasses.field(default_factory=dict)
    error: str | None = None

    @property
    def sessions_up(self):
        """How many BGP sessions are established."""
        return sum(state == 'up' for state in self.neighbours.values())

    def encode(self):
        return _encode({
            'announced': sorted(str(prefix) for prefix in self.announced),
            'neighbours': dict(sorted(self.neighbours.items())),
            'failed': {str(prefix): why for prefix, why in sorted(
                self.failed.items(), key=lambda item: str(item[0]))},
            'error': self.error,
        })

    @classmethod
    def decode(cls, data):
        document = _decode(data)
        try:
            return cls(
                frozenset(map(ipaddress.ip_network, document['announced'])),
                dict(document['neighbours']),
                {ipaddress.ip_network(prefix): why
                 for prefix, why in document['failed'].items()},
                document['error'])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise AnnouncementError(f'not a status: {error!r}') from error


class Announcements:
    """The agent's side.

    :param directory: the run directory that is shared with the announcer.
    :param allowed_networks: only prefixes inside these are ever written.
    """

    def __init__(self, directory, allowed_networks):
        directory = pathlib.Path(directory)
        self._path = directory / FILE_NAME
        self._status = directory / STATUS_NAME
        self._lock = directory / LOCK_NAME
        self._networks = [ipaddress.ip_network(network)
                          for network in allowed_networks]

    def check(self, prefix):
        """Return the prefix as a network if it may be announced.

        :raises AnnouncementError: it may not.
        """
        try:
            network = ipaddress.ip_network(prefix)
        except ValueError as error:
            raise AnnouncementError(f'{error}') from error
        if not inside(network, self._networks):
            raise AnnouncementError(
                f'{network} is outside the networks that may be announced')
        return network

    def set(self, wanted):
        """Announce these prefixes and no others.

        Without a change nothing is written. If one prefix may not be
        announced nothing changes at all.

        :param wanted: next hop of each prefix; None is the node itself.
        :returns: whether the file was written.
        :raises AnnouncementError: a prefix may not be announced.
        """
        checked = {self.check(prefix): _next_hop(hop)
                   for prefix, hop in wanted.items()}
        return atomic_file.replace(self._path, encode(checked))

    def wanted(self):
        """What the file asks for; nothing if there is no usable file."""
        try:
            return decode(self._path.read_bytes())
        except (OSError, AnnouncementError):
            return {}

    def status(self):
        """What the announcer reported last; None if no announcer runs.

        An announcer holds a lock while it lives, so that the file of a dead
        one, whatever killed it, is not taken for the truth.
        """
        try:
            if not _locked(self._lock):
                return None
            return Status.decode(self._status.read_bytes())
        except (FileNotFoundError, AnnouncementError):
            return None


def inside(prefix, networks):
    """Whether a prefix lies inside one of the networks."""
    return any(prefix.version == network.version
               and prefix.subnet_of(network) for network in networks)


def encode(wanted):
    """The content of the announcements file."""
    order = sorted(wanted, key=lambda prefix: (prefix.version, prefix))
    return _encode({'announcements': [
        {'prefix': str(prefix), 'next_hop': str(wanted[prefix] or _SELF)}
        for prefix in order]})


def decode(data):
    """The next hop of each prefix in an announcements file.

    :raises AnnouncementError: the file is torn, foreign or of another
        version.
    """
    document = _decode(data)
    try:
        return {ipaddress.ip_network(entry['prefix']):
                _next_hop(entry['next_hop'])
                for entry in document['announcements']}
    except (KeyError, TypeError, ValueError) as error:
        raise AnnouncementError(f'not announcements: {error!r}') from error


def _next_hop(hop):
    if hop in (None, _SELF):
        return None
    try:
        return ipaddress.ip_address(hop)
    except ValueError as error:
        raise AnnouncementError(f'next hop: {error}') from error


def _encode(fields):
    return (json.dumps({'version': VERSION, **fields}, indent=1)
            + '\n').encode()


def _decode(data):
    try:
        document = json.loads(data)
        version = document['version']
    except (KeyError, TypeError, ValueError) as error:
        raise AnnouncementError(f'malformed: {error!r}') from error
    if version != VERSION:
        raise AnnouncementError(f'version {version!r} is unknown, '
                                f'{VERSION} is known')
    return document


def _locked(path):
    with open(path, 'rb') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
