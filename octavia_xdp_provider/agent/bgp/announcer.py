# SPDX-License-Identifier: Apache-2.0
"""Makes ExaBGP announce what the announcements file says.

ExaBGP starts this process. It is level-triggered: it compares what the file
wants with what ExaBGP has, after each change of the file and from time to
time, and tells ExaBGP the difference. So it does not matter which of the
two, or whether the agent, was killed in between.

A file that is missing, torn or of another version says nothing about what is
wanted. Then all stays as it was: what the last good file asked for or, in a
new process, what ExaBGP has. An ExaBGP that was just started has nothing, so
a rebooted node announces nothing until the agent has written its file. To
withdraw everything the agent writes a file with no announcement.

Prefixes outside the given networks are neither announced nor withdrawn:
routes of the operator's own in ExaBGP's configuration are left alone.
"""

import fcntl
import logging
import pathlib
import select
import time

import inotify_simple

from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp import exabgp_api
from octavia_xdp_provider.common import atomic_file

LOG = logging.getLogger(__name__)

# The file is read again after this many seconds without any event.
POLL_INTERVAL = 5.0
# What ExaBGP has is compared this long after a change, and regularly.
VERIFY_DELAY = 1.0
VERIFY_INTERVAL = 30.0
RETRY_FIRST = 1.0
RETRY_MAX = 30.0

_NOTHING = object()

_WATCHED = (inotify_simple.flags.MOVED_TO | inotify_simple.flags.CLOSE_WRITE
            | inotify_simple.flags.DELETE_SELF
            | inotify_simple.flags.MOVE_SELF)
_DIRECTORY_GONE = (inotify_simple.flags.DELETE_SELF
                   | inotify_simple.flags.MOVE_SELF
                   | inotify_simple.flags.IGNORED)


class Announcer:
    """Keeps ExaBGP as the file says.

    :param file: the announcements file. The status file and the lock, which
        tells that an announcer lives, are put beside it.
    :param networks: networks inside which prefixes are announced.
    """

    def __init__(self, file, networks, reader, writer):
        self._file = pathlib.Path(file)
        self._status_file = self._file.with_name(announcements.STATUS_NAME)
        self._networks = networks
        self._reader = reader
        self._exabgp = exabgp_api.ExaBgp(reader, writer, self._session)
        self._wanted = None
        self._file_error = None
        # What ExaBGP confirmed, with the next hop that it was given.
        self._accepted = {}
        # What ExaBGP has for at least one neighbour.
        self._present = set()
        self._failed = {}
        self._impossible = set()  # of those failed: not told to ExaBGP
        self._neighbours = {}
        self._configured = {}  # address → exabgp_api.Neighbour
        self._status = None
        self._exabgp_error = None
        self._synchronised = False
        self._known = False
        self._verify_at = 0.0
        self._retry_at = 0.0
        self._retry_delay = RETRY_FIRST

    def run(self):
        """Work until ExaBGP ends."""
        directory = self._file.parent
        with open(directory / announcements.LOCK_NAME, 'w') as lock, \
                inotify_simple.INotify() as inotify:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise announcements.AnnouncementError(
                    f'another announcer serves {self._file}') from None
            # What a predecessor reported may not be true any more.
            self._status_file.unlink(missing_ok=True)
            self._status = None
            inotify.add_watch(directory, _WATCHED)
            try:
                self._serve(inotify)
            except exabgp_api.Closed:
                LOG.info('ExaBGP has ended')

    def _serve(self, inotify):
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        poll.register(inotify, select.POLLIN)
        while True:
            self._load()
            if self._synchronised or time.monotonic() >= self._retry_at:
                self._attempt()
            if self._known:
                self._write_status()
            wake = self._verify_at if self._synchronised else self._retry_at
            if self._failed:
                wake = min(wake, self._retry_at)
            self._wait(poll, inotify,
                       min(wake, time.monotonic() + POLL_INTERVAL))

    def _wait(self, poll, inotify, wake):
        """Wait for a change of the file or for the time to come."""
        while True:
            left = wake - time.monotonic()
            ready = poll.poll(max(left, 0) * 1000)
            state_before = dict(self._neighbours)
            self._exabgp.pump()
            changed = self._file_changed(inotify)
            if (changed or left <= 0 or not ready
                    or state_before != self._neighbours):
                return

    def _file_changed(self, inotify):
        changed = False
        for event in inotify.read(timeout=0):
            if event.mask & _DIRECTORY_GONE:
                raise announcements.AnnouncementError(
                    f'directory {self._file.parent} is gone')
            changed |= (event.name == self._file.name
                        or event.mask & inotify_simple.flags.Q_OVERFLOW)
        return changed

    def _attempt(self):
        """Find out what ExaBGP has if that is due, and correct it."""
        try:
            if not self._synchronised:
                self._exabgp.synchronise()
                self._synchronised = True
                self._verify_at = 0.0
            now = time.monotonic()
            if now >= self._verify_at:
                self._verify()
                self._known = True
                self._verify_at = now + VERIFY_INTERVAL
            if self._reconcile(retry=now >= self._retry_at):
                self._verify_at = time.monotonic() + VERIFY_DELAY
            self._exabgp_error = None
        except exabgp_api.ConversationError as error:
            LOG.error('%s', error)
            self._exabgp_error = str(error)
            self._synchronised = False
        if self._synchronised and not self._failed:
            self._retry_delay = RETRY_FIRST
        elif time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + self._retry_delay
            self._retry_delay = min(2 * self._retry_delay, RETRY_MAX)

    def _load(self):
        try:
            wanted = announcements.decode(self._file.read_bytes())
        except FileNotFoundError:
            error = f'there is no {self._file}'
        except (OSError, announcements.AnnouncementError) as problem:
            error = f'{self._file}: {problem}'
        else:
            error = None
            self._wanted = wanted
        if error and error != self._file_error:
            LOG.error('%s; all stays as it is', error)
        self._file_error = error

    def _verify(self):
        """Compare what ExaBGP has with what it has confirmed."""
        neighbours = self._exabgp.neighbours()
        self._configured = neighbours
        self._neighbours = {address: 'up' if one.up else 'down'
                            for address, one in neighbours.items()}
        routes = self._exabgp.announced()
        present = set().union(*routes.values())
        self._present = {prefix for prefix in present
                         if announcements.inside(prefix, self._networks)}
        held = {prefix for prefix in present if all(
            prefix in routes[address] for address, one in neighbours.items()
            if prefix.version in one.carries)}
        for prefix in list(self._accepted):
            deaf = [address for address, one in neighbours.items()
                    if one.up and prefix.version in one.carries - one.takes]
            if deaf:
                # Kept: a session that begins again may have it.
                self._fail(prefix, f'{", ".join(sorted(deaf))} does not take '
                                   f'{exabgp_api.FAMILIES[prefix.version]}')
            elif prefix in held:
                self._failed.pop(prefix, None)
            else:
                del self._accepted[prefix]
                self._fail(prefix, 'ExaBGP does not have it for each '
                                   'neighbour')

    def _reconcile(self, retry):
        """Tell ExaBGP the difference; returns whether there was one.

        What failed before is left out unless it is time to retry.
        """
        if self._wanted is None:
            return False
        allowed = {}
        for prefix, hop in self._wanted.items():
            problem = self._problem(prefix, hop)
            if problem:
                self._fail(prefix, problem)
                self._impossible.add(prefix)
                continue
            allowed[prefix] = hop
            if prefix in self._impossible:
                # Nothing that ExaBGP said, so there is no reason to wait.
                self._impossible.discard(prefix)
                self._failed.pop(prefix, None)
        for prefix in self._failed.keys() - self._wanted.keys():
            del self._failed[prefix]
        self._impossible &= self._wanted.keys()
        gone = [(prefix, self._accepted.get(prefix)
                 or self._any_next_hop(prefix))
                for prefix in sorted(self._present - allowed.keys(), key=str)]
        new = [(prefix, hop) for prefix, hop in allowed.items()
               if self._accepted.get(prefix, _NOTHING) != hop
               and (retry or prefix not in self._failed)]
        if gone:
            self._withdraw(gone)
        if new:
            self._announce(new)
        return bool(gone or new)

    def _carriers(self, prefix):
        return [one for one in self._configured.values()
                if prefix.version in one.carries]

    def _has_no_self(self, prefix):
        """Whether ExaBGP would have to name an IPv6 address of its own in
        an IPv4 session, where it has none."""
        return prefix.version == 6 and any(
            one.session != 6 for one in self._carriers(prefix))

    def _any_next_hop(self, prefix):
        """A next hop for the withdrawal of a route whose own is not known,
        for which any address does."""
        return prefix.network_address if self._has_no_self(prefix) else None

    def _problem(self, prefix, hop):
        """Why a route cannot be announced, as ExaBGP is configured."""
        if not announcements.inside(prefix, self._networks):
            return 'outside the networks of this announcer'
        if not self._carriers(prefix):
            return ('no neighbour in exabgp.conf has the family '
                    f'{exabgp_api.FAMILIES[prefix.version]}')
        if hop is None and self._has_no_self(prefix):
            return ('over an IPv4 session it needs a next hop, set [agent] '
                    'next_hop_v6')
        return None

    def _withdraw(self, routes):
        refused = self._exabgp.withdraw(routes)
        for route in routes:
            if route in refused:
                LOG.error('ExaBGP refuses to withdraw %s', route[0])
                # Kept as present, so that the next round tries again.
                continue
            LOG.info('withdrawn: %s', route[0])
            self._present.discard(route[0])
            self._accepted.pop(route[0], None)

    def _announce(self, routes):
        # Present even if the answer never comes.
        self._present.update(prefix for prefix, _hop in routes)
        refused = self._exabgp.announce(routes)
        for prefix, hop in routes:
            if (prefix, hop) in refused:
                self._present.discard(prefix)
                self._accepted.pop(prefix, None)
                self._fail(prefix, 'ExaBGP refuses to announce it')
                continue
            LOG.info('announced: %s, next hop %s', prefix, hop or 'self')
            self._accepted[prefix] = hop

    def _fail(self, prefix, why):
        if self._failed.get(prefix) != why:
            LOG.error('%s is not announced: %s', prefix, why)
        self._failed[prefix] = why

    def _session(self, address, up, reason):
        state = 'up' if up else 'down'
        if self._neighbours.get(address) != state:
            LOG.info('session with %s is %s %s', address, state, reason)
            # The router may take other families than before.
            self._verify_at = min(self._verify_at,
                                  time.monotonic() + VERIFY_DELAY)
        self._neighbours[address] = state

    def _write_status(self):
        data = announcements.Status(
            frozenset(self._accepted.keys() - self._failed.keys()),
            self._neighbours, self._failed,
            self._exabgp_error or self._file_error).encode()
        if data == self._status:
            return
        try:
            atomic_file.replace(self._status_file, data)
        except OSError as error:
            LOG.error('cannot report: %s', error)
        else:
            self._status = data
