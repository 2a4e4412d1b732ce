# SPDX-License-Identifier: Apache-2.0
"""Batches the status messages of many callers, and keeps their order.

octavia-driver-agent starts a process for each call, which costs more than
hundreds of records. So concurrent callers share a call, under these rules:

* A record that cannot be set fails for its caller only. Octavia stops at
  such a record and names it; the other messages of that call are then sent
  again. Setting a status twice is harmless.
* A record may wait in Octavia's database for a row that an open transaction
  has locked. Other callers must not wait long because of it: after SLOW_S the
  next call starts in parallel. Provisioning statuses, whose transactions are
  over, share no call with operating statuses, and neither do so with deletions
  of load balancers.
* For each deletion of a load balancer, octavia-driver-agent calls Neutron,
  which takes most of a second, and for each call with deletions it first has
  to log in and load modules. So deletions that wait meanwhile share calls, and
  their callers wait for long: abandoning a deletion and sending it again would
  only slow it down.
* A message that its caller has abandoned may still be executed. Until it is
  answered, no later message about the same objects is sent, so that an old
  status never overwrites a new one.
"""

from collections.abc import Callable
from collections.abc import Iterable
import dataclasses
import enum
import math
import threading
import time

from octavia_lib.common import constants as lib

from octavia_xdp_provider.controller.octavia import driver_agent
from octavia_xdp_provider.controller.octavia import errors

# Seconds after which an unanswered call no longer delays others.
SLOW_S = 2.0
# Records in a call of several messages: it must fit a socket's buffer.
RECORDS_MAX = 500
# Deletions per call. They are executed one after the other, each with some
# twenty transactions for the objects below it: more deletions per call would
# save little and delay the answer.
DELETIONS_MAX = 4
# Concurrent calls with deletions, including those that hang, so that calls
# remain for other messages.
DELETION_CALLS_MAX = 2
# Seconds for which the caller of a deletion waits.
DELETION_LIMIT_S = 2 * driver_agent.ANSWER_LIMIT_S

Message = driver_agent.Message


class Lane(enum.Enum):
    """Classes of messages that may share a call."""

    ALONE = enum.auto()
    # Provisioning statuses: their transactions in Octavia are over.
    PROVISIONING = enum.auto()
    # Deletions of load balancers: each calls Neutron.
    DELETION = enum.auto()
    # Operating statuses: a user's transaction may be open at any time.
    OPERATING = enum.auto()


@dataclasses.dataclass(eq=False)
class _Item:
    """A caller's message.

    ``objects``: (plural name of the kind, id) of its records.
    """

    message: Message
    lane: Lane
    objects: frozenset[tuple[str, str]]
    sent: bool = False
    answered: threading.Event = dataclasses.field(
        default_factory=threading.Event)
    error: errors.OctaviaUnavailable | None = None


class Sender:
    """Sends status messages. Thread-safe."""

    def __init__(self, set_statuses: Callable[[Message], None],
                 calls_max: int, timeout_s: float) -> None:
        """Set up the sender.

        :param set_statuses: sends a message; raises OctaviaUnavailable.
        :param timeout_s: seconds that a caller waits, unless for a deletion.
        """
        self._set_statuses = set_statuses
        self._calls_max = calls_max
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._waiting: list[_Item] = []
        # Calls under way: (lane, time.monotonic() of their start).
        self._calls: dict[threading.Thread, tuple[Lane, float]] = {}
        self._objects: set[tuple[str, str]] = set()  # objects of these calls
        self._end = math.inf  # time.monotonic() until which callers may wait

    def stop(self) -> None:
        """Send nothing more, and limit all callers to the usual time."""
        with self._lock:
            self._end = time.monotonic() + self._timeout_s
            for item in list(self._waiting):
                self._abandon(item)
                item.answered.set()

    def send(self, message: Message) -> None:
        """Send a message and wait for the answer.

        :raises Rejected: Octavia could not set one of its records.
        :raises OctaviaUnavailable: no answer arrived in time.
        """
        item = _Item(message, lane(message), objects(message))
        deadline = time.monotonic() + (
            DELETION_LIMIT_S if item.lane is Lane.DELETION
            else self._timeout_s)
        with self._lock:
            self._waiting.append(item)
            self._start()
        while not item.answered.wait(max(0.0, min(
                SLOW_S, min(deadline, self._end) - time.monotonic()))):
            with self._lock:
                if time.monotonic() >= min(deadline, self._end):
                    self._abandon(item)
                    break
                self._start()
        if item.error is not None:
            raise item.error

    def _abandon(self, item: _Item) -> None:
        if item.answered.is_set():
            return
        if item in self._waiting:
            self._waiting.remove(item)
        item.error = errors.OctaviaUnavailable(
            'octavia-driver-agent: no answer to statuses in time',
            maybe_done=item.sent)

    def _start(self) -> None:
        """Start the calls that may start now. The caller holds the lock."""
        busy = set(self._objects)
        batches: dict[Lane, list[_Item]] = {}
        for item in list(self._waiting):
            is_free = not item.objects & busy
            # Later messages about these objects wait as well.
            busy |= item.objects
            if not is_free:
                continue
            if item.lane is Lane.ALONE:
                self._call([item])
                continue
            batch = batches.setdefault(item.lane, [])
            if not batch or _fits(batch, item):
                batch.append(item)
        now = time.monotonic()
        for batch_lane, batch in batches.items():
            ages = [now - started
                    for call_lane, started in self._calls.values()
                    if call_lane is batch_lane]
            if batch_lane is Lane.DELETION:
                may_start = len(ages) < min(DELETION_CALLS_MAX,
                                            max(1, self._calls_max - 2))
            else:
                # Slow calls under way do not count.
                may_start = all(age >= SLOW_S for age in ages)
            if may_start:
                self._call(batch)

    def _call(self, batch: list[_Item]) -> None:
        if len(self._calls) >= self._calls_max:
            return
        for item in batch:
            self._waiting.remove(item)
            item.sent = True
            self._objects |= item.objects
        # A daemon thread, so that the process can end while Octavia does not
        # answer.
        thread = threading.Thread(target=self._run, args=(batch,),
                                  daemon=True, name='statuses')
        self._calls[thread] = (batch[0].lane, time.monotonic())
        thread.start()

    def _run(self, batch: list[_Item]) -> None:
        error = None
        try:
            self._set_statuses(merge(item.message for item in batch))
        except errors.OctaviaUnavailable as unavailable:
            error = unavailable
        except Exception as unexpected:
            error = errors.OctaviaUnavailable(
                f'octavia-driver-agent: {unexpected!r}', maybe_done=True)
        with self._lock:
            del self._calls[threading.current_thread()]
            for item in batch:
                self._objects -= item.objects
            if isinstance(error, errors.Rejected) and len(batch) > 1:
                batch = self._resend(batch, error.object_id)
            for item in batch:
                item.error = item.error or error
                item.answered.set()
            self._start()

    def _resend(self, batch: list[_Item], object_id: str | None
               ) -> list[_Item]:
        """Queue the messages of a refused batch again, ahead of others.

        If Octavia did not name the refused record, each message is sent
        alone. Abandoned messages are not sent again.

        :returns: the refused messages, which are not queued.
        """
        refused = [item for item in batch if object_id in {
            key for _plural, key in item.objects}]
        waited_for = [item for item in batch
                      if item.error is None and item not in refused]
        if not refused:
            for item in waited_for:
                item.lane = Lane.ALONE
        if time.monotonic() < self._end:
            self._waiting[:0] = waited_for
        return refused


def _fits(batch: list[_Item], item: _Item) -> bool:
    if item.lane is Lane.DELETION and len(batch) >= DELETIONS_MAX:
        return False
    records = sum(len(other.objects) for other in batch)
    return records + len(item.objects) <= RECORDS_MAX


def lane(message: Message) -> Lane:
    """Return the Lane of a message."""
    if any(record.get(lib.PROVISIONING_STATUS) == lib.DELETED
           for record in message.get(lib.LOADBALANCERS, ())):
        return Lane.DELETION
    if any(lib.PROVISIONING_STATUS in record
           for records in message.values() for record in records):
        return Lane.PROVISIONING
    return Lane.OPERATING


def objects(message: Message) -> frozenset[tuple[str, str]]:
    """Return (plural name of the kind, id) of all records."""
    return frozenset((plural, record[lib.ID])
                     for plural, records in message.items()
                     for record in records)


def merge(messages: Iterable[Message]) -> Message:
    """Return one message with the records of all messages."""
    result: Message = {}
    for message in messages:
        for plural, records in message.items():
            result.setdefault(plural, []).extend(records)
    return result
