# SPDX-License-Identifier: Apache-2.0
"""Secrets of this node's load balancers.

They are fetched when a configuration needs them, and kept in memory alone;
the files that HAProxy reads are the agent's (tmpfs). After a restart of the
agent they are fetched again, while HAProxy processes go on with their files.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import threading
import time
from typing import Protocol

from oslo_log import log as logging

from octavia_xdp_provider.bundles import bundle as bundles
from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.proxy.agent import parts
from octavia_xdp_provider.proxy.render import settings

LOG = logging.getLogger(__name__)

# Seconds between two attempts to get what is missing.
RETRY_S = 1.0
RETRY_MAX_S = 15.0
# Seconds between two looks for new keys of session tickets. They are not used
# before a whole [secrets] ticket_rotation, which is 600 at least, is over.
TICKETS_S = 200.0

_BUNDLES = shape.Shape(messages.BundlesAnswer)
_TICKETS = shape.Shape(messages.TicketsAnswer)


class Controllers(Protocol):
    """rpc.SecretsClient."""

    def bundles(self, host: str, names: list[str]) -> messages.BundlesAnswer:
        ...

    def tickets(self, host: str, ids: list[str]) -> messages.TicketsAnswer:
        ...


class Secrets:
    """See parts.Secrets; ``run`` fetches until ``stop`` is called.

    :param arrived: called when something that was missing has come.
    """

    def __init__(self, host: str, controllers: Controllers,
                 pair: sealing.KeyPair, arrived: Callable[[], object],
                 come_round: Callable[[], None] = lambda: None) -> None:
        self._host = host
        self._controllers = controllers
        self._pair = pair
        self._arrived = arrived
        self._come_round = come_round
        self._lock = threading.Lock()
        self._is_asked = threading.Event()
        self._stopping = threading.Event()
        self._refreshed_at = time.monotonic()
        # All by load balancer id.
        self._wanted: dict[str, frozenset[str]] = {}
        self._bundles: dict[str, dict[str, bundles.Bundle]] = {}
        self._tickets: dict[str, bundles.Bundle] = {}
        self._changed: set[str] = set()
        self._problem: str | None = None

    def want(self, bundles: Mapping[str, frozenset[str]]) -> None:
        """See parts.Secrets. All other secrets are forgotten."""
        with self._lock:
            self._wanted = dict(bundles)
            self._bundles = {
                key: {name: bundle for name, bundle
                      in self._bundles.get(key, {}).items() if name in hashes}
                for key, hashes in bundles.items()}
            for key in self._tickets.keys() - bundles.keys():
                del self._tickets[key]
            self._changed &= bundles.keys()
        if any(self._missing()):
            self._is_asked.set()

    def files(self, load_balancer_id: str, hashes: frozenset[str]
              ) -> dict[str, bytes]:
        """See parts.Secrets. The keys of session tickets are among the files.

        :raises Missing: one of them is not here yet; it is being fetched.
        """
        with self._lock:
            kept = self._bundles.get(load_balancer_id, {})
            if hashes - kept.keys() or self._lacks_tickets(load_balancer_id):
                raise parts.Missing(
                    self._problem or 'certificates are being fetched')
            files = {settings.bundle_file(name): kept[name].pem
                     for name in hashes}
            if load_balancer_id in self._tickets:
                files[settings.TICKET_KEYS] = self._tickets[
                    load_balancer_id].pem
            return files

    def changed(self) -> set[str]:
        """See parts.Secrets."""
        with self._lock:
            changed, self._changed = self._changed, set()
            return changed

    @property
    def problem(self) -> str | None:
        """Why secrets are missing."""
        with self._lock:
            return self._problem

    def stop(self) -> None:
        self._stopping.set()
        self._is_asked.set()

    def run(self) -> None:
        """Fetch whatever is missing, until ``stop`` is called."""
        pause_s = RETRY_S
        while not self._stopping.is_set():
            self._come_round()
            if self.fetch() or not any(self._missing()):
                pause_s = RETRY_S
            else:
                # Calls of want() do not hurry this on.
                self._stopping.wait(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)
            self._is_asked.wait(RETRY_S)
            self._is_asked.clear()

    def fetch(self) -> bool:
        """Ask for everything that is missing, and for new keys of tickets from
        time to time; return whether anything has come."""
        names, ids = self._missing()
        is_due = time.monotonic() - self._refreshed_at > TICKETS_S
        if is_due:
            self._refreshed_at = time.monotonic()
            with self._lock:
                ids |= self._tickets.keys()
        if not names and not ids:
            return False
        problems: list[str | None] = []
        try:
            has_come = self._fetch_bundles(names, problems)
            # Which load balancers have a certificate is known only now.
            has_come |= self._fetch_tickets(ids | self._missing()[1],
                                            problems)
        except rpc.TRANSPORT_ERRORS as error:
            problems.append('certificates cannot be fetched: '
                            f'{type(error).__name__}')
            has_come = False
        except errors.Refused as error:
            problems.append(f'an answer of the controllers is malformed at '
                            f'{error.option}')
            has_come = False
        self._note(next(filter(None, problems), None))
        if has_come:
            self._arrived()
        return has_come

    def _lacks_tickets(self, key: str) -> bool:
        return key not in self._tickets and any(
            bundle.kind == bundles.Kind.CERTIFICATE
            for bundle in self._bundles[key].values())

    def _missing(self) -> tuple[dict[str, str], set[str]]:
        """Return load balancer id by name of a missing bundle, and load
        balancers without keys of tickets."""
        with self._lock:
            return {name: key for key, hashes in self._wanted.items()
                    for name in hashes - self._bundles[key].keys()}, {
                        key for key in self._wanted
                        if self._lacks_tickets(key)}

    def _fetch_bundles(self, names: dict[str, str],
                       problems: list[str | None]) -> bool:
        """:param names: load balancer id by name."""
        has_come = False
        left = sorted(names)
        while left:
            asked = left[:messages.BUNDLES_PAGE]
            answer = self._controllers.bundles(self._host, asked)
            _BUNDLES.check(answer)
            problems.append(answer['problem'])
            sent = answer['bundles'].keys() & set(asked)
            for name in sent:
                key = names[name]
                bundle = self._open(answer['bundles'][name], key, name,
                                    problems)
                with self._lock:
                    if bundle is not None and key in self._bundles:
                        self._bundles[key][name] = bundle
                        self._changed.add(key)
                        has_come = True
            # What did not fit is asked for again, what is not there is not.
            left = [name for name in left if name not in sent] if sent else (
                left[len(asked):])
        return has_come

    def _fetch_tickets(self, ids: Iterable[str], problems: list[str | None]
                       ) -> bool:
        has_come = False
        left = sorted(ids)
        while left:
            asked, left = (left[:messages.BUNDLES_PAGE],
                           left[messages.BUNDLES_PAGE:])
            answer = self._controllers.tickets(self._host, asked)
            _TICKETS.check(answer)
            problems.append(answer['problem'])
            for key in answer['tickets'].keys() & set(asked):
                tickets = answer['tickets'][key]
                bundle = self._open(tickets['sealed'], key, tickets['name'],
                                    problems, is_tickets=True)
                if bundle is not None:
                    has_come |= self._take_tickets(key, bundle)
        return has_come

    def _take_tickets(self, key: str, bundle: bundles.Bundle) -> bool:
        with self._lock:
            former = self._tickets.get(key)
            if key not in self._wanted or former == bundle:
                return False
            self._tickets[key] = bundle
            self._changed.add(key)
            return True

    def _open(self, text: str, key: str, name: str,
              problems: list[str | None], is_tickets: bool = False
              ) -> bundles.Bundle | None:
        try:
            bundle = self._pair.open(text, key, name)
            if (bundle.kind == bundles.Kind.TICKETS) != is_tickets:
                raise sealing.SealError('it is of another kind')
        except sealing.SealError as error:
            problems.append(
                f'bundle {name} cannot be used: {error}. The public key of '
                f'this node is {self._pair.public}')
            return None
        return bundle

    def _note(self, problem: str | None) -> None:
        with self._lock:
            former, self._problem = self._problem, problem
        if problem is not None and problem != former:
            LOG.error('Secrets are missing: %s', problem)
        elif problem is None and former is not None:
            LOG.info('Secrets are no longer missing.')
