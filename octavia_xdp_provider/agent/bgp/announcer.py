# SPDX-License-Identifier: Apache-2.0
"""Makes a BGP speaker announce the content of the announcements file.

ExaBGP, the speaker in production, starts this process. The process is
level-triggered: after each change of the file, and at intervals, it compares
the file with the speaker's routes and sends commands for the difference. So
it does not matter whether it, the speaker or the agent was killed in between.

A file that is missing, torn or of another version is ignored, and the
announcements of the last good file stay or, in a new process, those of the
speaker. A new speaker has no routes, so a rebooted node announces nothing
until the agent has written its file. To withdraw everything, the agent writes
a file with an empty list.

Prefixes outside the given networks are neither announced nor withdrawn, so
the operator's own routes in the speaker's configuration are left alone.
"""

import collections.abc
import fcntl
import logging
import os
import pathlib
import select
import time

import inotify_simple

from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp import speaker
from octavia_xdp_provider.agent.bgp.route import FAMILIES
from octavia_xdp_provider.agent.bgp.route import Network
from octavia_xdp_provider.agent.bgp.route import Route
from octavia_xdp_provider.process import atomic_file

LOG = logging.getLogger(__name__)

# The file is read again after this many seconds without any event.
POLL_INTERVAL_S = 5.0
# The speaker's routes are compared this long after a change, and regularly.
VERIFY_DELAY_S = 1.0
VERIFY_INTERVAL_S = 30.0
RETRY_FIRST_S = 1.0
RETRY_MAX_S = 30.0

_WATCHED = (inotify_simple.flags.MOVED_TO | inotify_simple.flags.CLOSE_WRITE
            | inotify_simple.flags.DELETE_SELF
            | inotify_simple.flags.MOVE_SELF)
_DIRECTORY_GONE = (inotify_simple.flags.DELETE_SELF
                   | inotify_simple.flags.MOVE_SELF
                   | inotify_simple.flags.IGNORED)


class _File:
    """The announcements file.

    :ivar wanted: the routes of the last good file.
    :ivar error: why the present one cannot be used, or None.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.wanted: dict[Network, Route] | None = None
        self.error: str | None = None

    def read(self) -> None:
        error: str | None
        try:
            wanted = announcements.decode(self.path.read_bytes())
        except FileNotFoundError:
            error = f'there is no {self.path}'
        except (OSError, announcements.AnnouncementError) as problem:
            error = f'{self.path}: {problem}'
        else:
            error = None
            self.wanted = wanted
        if error and error != self.error:
            LOG.error('%s; announcements do not change', error)
        self.error = error


class _Routes:
    """The speaker's routes.

    :param networks: prefixes are announced only inside these.
    :ivar failed: wanted prefix → why it is not announced.
    """

    def __init__(self, bgp: speaker.Speaker,
                 networks: collections.abc.Sequence[Network]) -> None:
        self._speaker = bgp
        self._networks = networks
        # Routes that the speaker has confirmed.
        self._accepted: dict[Network, Route] = {}
        # Prefixes that the speaker has for at least one neighbour.
        self._present: set[Network] = set()
        self.failed: dict[Network, str] = {}
        # Failed prefixes that were not given to the speaker.
        self._impossible: set[Network] = set()

    def announced(self) -> frozenset[Network]:
        return frozenset(self._accepted.keys() - self.failed.keys())

    def verify(self, neighbours: dict[str, speaker.Neighbour]) -> None:
        """Compare the speaker's routes with those that it has confirmed."""
        routes = self._speaker.routes()
        present = set().union(*routes.values())
        self._present = {prefix for prefix in present
                         if announcements.inside(prefix, self._networks)}
        held = {prefix for prefix in present if all(
            prefix in routes.get(address, ())
            for address, neighbour in neighbours.items()
            if prefix.version in neighbour.carries)}
        for prefix in list(self._accepted):
            unable = [address for address, neighbour in neighbours.items()
                      if neighbour.up and prefix.version
                      in neighbour.carries - neighbour.takes]
            if unable:
                # It stays accepted: the next session may take the family.
                self._fail(prefix, f'{", ".join(sorted(unable))} does not '
                                   f'take {FAMILIES[prefix.version]}')
            elif prefix in held:
                self.failed.pop(prefix, None)
            else:
                del self._accepted[prefix]
                self._fail(prefix, 'the speaker does not have it for each '
                                   'neighbour')

    def reconcile(self, wanted: dict[Network, Route], retry: bool) -> bool:
        """Send commands for the difference; return whether there was one.

        Failed routes are left out unless it is time to retry.
        """
        allowed = self._allowed(wanted)
        gone = [self._accepted.get(prefix, Route(prefix))
                for prefix in sorted(self._present - allowed.keys(), key=str)]
        new = [route for prefix, route in allowed.items()
               if self._accepted.get(prefix) != route
               and (retry or prefix not in self.failed)]
        if gone:
            self._withdraw(gone)
        if new:
            self._announce(new)
        return bool(gone or new)

    def _allowed(self, wanted: dict[Network, Route]
                 ) -> dict[Network, Route]:
        """Return the routes that the speaker can send; note the others."""
        allowed = {}
        for prefix, route in wanted.items():
            problem = self._problem(route)
            if problem:
                self._fail(prefix, problem)
                self._impossible.add(prefix)
                continue
            allowed[prefix] = route
            if prefix in self._impossible:
                # The speaker has not refused it, so do not wait for a retry.
                self._impossible.discard(prefix)
                self.failed.pop(prefix, None)
        for prefix in self.failed.keys() - wanted.keys():
            del self.failed[prefix]
        self._impossible &= wanted.keys()
        return allowed

    def _problem(self, route: Route) -> str | None:
        """Return why the speaker cannot send a route, or None."""
        if not announcements.inside(route.prefix, self._networks):
            return 'outside the networks of this announcer'
        unknown = route.attributes().keys() - self._speaker.capabilities
        if unknown:
            return f'the speaker cannot send {", ".join(sorted(unknown))}'
        return self._speaker.problem(route)

    def _withdraw(self, routes: list[Route]) -> None:
        refused = self._speaker.withdraw(routes)
        for route in routes:
            if route in refused:
                LOG.error('the speaker refuses to withdraw %s', route.prefix)
                # It stays present, so that the next round tries again.
                continue
            LOG.info('withdrawn: %s', route.prefix)
            self._present.discard(route.prefix)
            self._accepted.pop(route.prefix, None)

    def _announce(self, routes: list[Route]) -> None:
        # They may be present even if the answer never arrives.
        self._present.update(route.prefix for route in routes)
        refused = self._speaker.announce(routes)
        for route in routes:
            if route in refused:
                self._present.discard(route.prefix)
                self._accepted.pop(route.prefix, None)
                self._fail(route.prefix, 'the speaker refuses to announce it')
                continue
            LOG.info('announced: %s', route)
            self._accepted[route.prefix] = route

    def _fail(self, prefix: Network, why: str) -> None:
        if self.failed.get(prefix) != why:
            LOG.error('%s is not announced: %s', prefix, why)
        self.failed[prefix] = why


class Announcer:
    """Keeps a speaker's routes as in the file.

    :param file: the announcements file. The status file, and the lock that
        shows that an announcer lives, are put into the same directory.
    :param networks: prefixes are announced only inside these.
    """

    def __init__(self, file: str | pathlib.Path,
                 networks: collections.abc.Sequence[Network],
                 bgp: speaker.Speaker) -> None:
        self._file = _File(pathlib.Path(file))
        self._status_file = self._file.path.with_name(
            announcements.STATUS_NAME)
        self._speaker = bgp
        bgp.subscribe(self._session)
        self._routes = _Routes(bgp, networks)
        self._neighbours: dict[str, str] = {}  # address → 'up' or 'down'
        self._status: bytes | None = None
        self._speaker_error: str | None = None
        self._synchronised = False
        self._known = False
        self._verify_at = 0.0
        self._retry_at = 0.0
        self._retry_delay_s = RETRY_FIRST_S

    def run(self) -> None:
        """Serve the file until the speaker ends.

        :raises AnnouncementError: another announcer serves the file, or its
            directory is gone.
        """
        directory = self._file.path.parent
        with open(directory / announcements.LOCK_NAME, 'w') as lock, \
                inotify_simple.INotify() as inotify:
            # With ExaBGP's umask the agent, another user, could not read it.
            os.fchmod(lock.fileno(), 0o644)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise announcements.AnnouncementError(
                    f'another announcer serves {self._file.path}') from None
            # The status of a predecessor may be out of date.
            self._status_file.unlink(missing_ok=True)
            self._status = None
            inotify.add_watch(directory, _WATCHED)
            try:
                self._serve(inotify)
            except speaker.SpeakerClosed:
                LOG.info('the BGP speaker has ended')

    def _serve(self, inotify: inotify_simple.INotify) -> None:
        poll = select.poll()
        poll.register(self._speaker.fileno(), select.POLLIN)
        poll.register(inotify, select.POLLIN)
        while True:
            self._file.read()
            if self._synchronised or time.monotonic() >= self._retry_at:
                self._attempt()
            if self._known:
                self._write_status()
            wake = self._verify_at if self._synchronised else self._retry_at
            if self._routes.failed:
                wake = min(wake, self._retry_at)
            self._wait(poll, inotify,
                       min(wake, time.monotonic() + POLL_INTERVAL_S))

    def _wait(self, poll: select.poll, inotify: inotify_simple.INotify,
              wake: float) -> None:
        """Wait for a change of the file or of a session, or until `wake`."""
        while True:
            left_s = wake - time.monotonic()
            ready = poll.poll(max(left_s, 0) * 1000)
            state_before = dict(self._neighbours)
            self._speaker.receive()
            changed = self._file_changed(inotify)
            if (changed or left_s <= 0 or not ready
                    or state_before != self._neighbours):
                return

    def _file_changed(self, inotify: inotify_simple.INotify) -> bool:
        changed = False
        for event in inotify.read(timeout=0):
            if event.mask & _DIRECTORY_GONE:
                raise announcements.AnnouncementError(
                    f'directory {self._file.path.parent} is gone')
            changed |= (event.name == self._file.path.name or bool(
                event.mask & inotify_simple.flags.Q_OVERFLOW))
        return changed

    def _attempt(self) -> None:
        """Compare the speaker's routes if that is due, and correct them."""
        try:
            if not self._synchronised:
                self._speaker.synchronise()
                self._synchronised = True
                self._verify_at = 0.0
            now = time.monotonic()
            if now >= self._verify_at:
                neighbours = self._speaker.neighbours()
                self._neighbours = {
                    address: 'up' if neighbour.up else 'down'
                    for address, neighbour in neighbours.items()}
                self._routes.verify(neighbours)
                self._known = True
                self._verify_at = now + VERIFY_INTERVAL_S
            if self._file.wanted is not None and self._routes.reconcile(
                    self._file.wanted, retry=now >= self._retry_at):
                self._verify_at = time.monotonic() + VERIFY_DELAY_S
            self._speaker_error = None
        except speaker.SpeakerError as error:
            LOG.error('%s', error)
            self._speaker_error = str(error)
            self._synchronised = False
        if self._synchronised and not self._routes.failed:
            self._retry_delay_s = RETRY_FIRST_S
        elif time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + self._retry_delay_s
            self._retry_delay_s = min(2 * self._retry_delay_s,
                                      RETRY_MAX_S)

    def _session(self, address: str, up: bool, reason: str) -> None:
        state = 'up' if up else 'down'
        if self._neighbours.get(address) != state:
            LOG.info('session with %s is %s %s', address, state, reason)
            # The router may take different families in a new session.
            self._verify_at = min(self._verify_at,
                                  time.monotonic() + VERIFY_DELAY_S)
        self._neighbours[address] = state

    def _write_status(self) -> None:
        data = announcements.Status(
            self._routes.announced(), self._neighbours, self._routes.failed,
            self._speaker_error or self._file.error).encode()
        if data == self._status:
            return
        try:
            atomic_file.replace(self._status_file, data)
        except OSError as error:
            LOG.error('cannot report: %s', error)
        else:
            self._status = data
