# SPDX-License-Identifier: Apache-2.0
"""Status messages of many callers, in few calls and in order.

octavia-driver-agent starts a process for each call, which costs more than
hundreds of records. So callers that wait at the same time share a call.
What must hold all the same:

* A record that cannot be set fails for its caller only. Octavia stops at
  such a record, and names it; the other messages of that call are then sent
  again. Setting a status twice does no harm.
* A record may wait in Octavia's database for a row that an open transaction
  has locked. Others shall not wait with it for long: after SLOW_S the next
  call starts beside it. Provisioning statuses, whose transactions are over,
  share no call with operating statuses, and neither with deletions of load
  balancers.
* For each deletion of a load balancer octavia-driver-agent talks to Neutron
  for most of a second, and for each call with some it signs in and loads what
  it needs for that first. So what waits meanwhile shares calls, and callers
  wait for as long as it takes: to give one up and to send it again would make
  it slower still.
* A message that was given up by its caller may still be carried out. Until
  it is answered none of a later caller about the same objects is sent, so
  that an old status never comes after a new one.
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

# Seconds after which a call that is not answered does not hold up others.
SLOW_S = 2.0
# Records in a call of several messages: it must fit a socket's buffer.
RECORDS_MAX = 500
# Deletions in a call, which are done one after the other, with some twenty
# transactions for what was below each: more would save little, and be answered
# late. And such calls at a time, also where they hang: others are to have some
# left.
DELETIONS_MAX = 4
DELETION_CALLS_MAX = 2
# Seconds for which the caller of a deletion waits.
DELETION_LIMIT_S = 2 * driver_agent.ANSWER_LIMIT_S

Message = driver_agent.Message


class Lane(enum.Enum):
    """Which messages may share a call."""

    ALONE = enum.auto()
    # With a provisioning status: their transactions in Octavia are over.
    PROVISIONING = enum.auto()
    # Of load balancers: Neutron is asked for each.
    DELETION = enum.auto()
    # Operating statuses: a transaction may be open whenever a user calls.
    OPERATING = enum.auto()


@dataclasses.dataclass(eq=False)
class _Item:
    """A caller's message. ``objects``: (plural, id) of its records."""

    message: Message
    lane: Lane
    objects: frozenset[tuple[str, str]]
    sent: bool = False
    answered: threading.Event = dataclasses.field(
        default_factory=threading.Event)
    error: errors.OctaviaUnavailable | None = None


class Sender:
    """Sends status messages. Any thread may use it."""

    def __init__(self, set_statuses: Callable[[Message], None],
                 calls_max: int, timeout_s: float) -> None:
        """:param set_statuses: sends a message; raises OctaviaUnavailable.

        :param timeout_s: for which a caller waits, unless it is a deletion.
        """
        self._set_statuses = set_statuses
        self._calls_max = calls_max
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._waiting: list[_Item] = []
        # Calls under way: (what they send, time.monotonic() of their start).
        self._calls: dict[threading.Thread, tuple[Lane, float]] = {}
        self._objects: set[tuple[str, str]] = set()  # of these calls
        self._end = math.inf  # of all waiting, by time.monotonic()

    def stop(self) -> None:
        """Nothing more is sent, and no caller waits longer than usual."""
        with self._lock:
            self._end = time.monotonic() + self._timeout_s
            for item in list(self._waiting):
                self._give_up(item)
                item.answered.set()

    def send(self, message: Message) -> None:
        """Send a message and wait for the answer.

        :raises Rejected: Octavia could not set one of its records.
        :raises OctaviaUnavailable: there is no answer in time.
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
                    self._give_up(item)
                    break
                self._start()
        if item.error is not None:
            raise item.error

    def _give_up(self, item: _Item) -> None:
        if item.answered.is_set():
            return
        if item in self._waiting:
            self._waiting.remove(item)
        item.error = errors.OctaviaUnavailable(
            'octavia-driver-agent: no answer to statuses in time',
            maybe_done=item.sent)

    def _start(self) -> None:
        """Start the calls that may start now. The lock is held."""
        held = set(self._objects)
        batches: dict[Lane, list[_Item]] = {}
        for item in list(self._waiting):
            free = not item.objects & held
            # Also what comes later and is about these objects waits.
            held |= item.objects
            if not free:
                continue
            if item.lane is Lane.ALONE:
                self._call([item])
                continue
            batch = batches.setdefault(item.lane, [])
            if not batch or _fits(batch, item):
                batch.append(item)
        now = time.monotonic()
        for found, batch in batches.items():
            ages = [now - started for other, started in self._calls.values()
                    if other is found]
            if found is Lane.DELETION:
                may = len(ages) < min(DELETION_CALLS_MAX,
                                      max(1, self._calls_max - 2))
            else:
                # Those under way that are slow do not count.
                may = all(age >= SLOW_S for age in ages)
            if may:
                self._call(batch)

    def _call(self, batch: list[_Item]) -> None:
        if len(self._calls) >= self._calls_max:
            return
        for item in batch:
            self._waiting.remove(item)
            item.sent = True
            self._objects |= item.objects
        # A daemon: the process may end while Octavia does not answer.
        thread = threading.Thread(target=self._run, args=(batch,),
                                  daemon=True, name='statuses')
        self._calls[thread] = (batch[0].lane, time.monotonic())
        thread.start()

    def _run(self, batch: list[_Item]) -> None:
        error = None
        try:
            self._set_statuses(merged(item.message for item in batch))
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
                batch = self._again(batch, error.object_id)
            for item in batch:
                item.error = item.error or error
                item.answered.set()
            self._start()

    def _again(self, batch: list[_Item], object_id: str | None
               ) -> list[_Item]:
        """One of several was refused: send the others again, before others.

        Where Octavia does not say which, each goes alone. Those that their
        callers have given up are not sent again.

        :returns: the one that was refused.
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
    """How a message may be sent."""
    if any(record.get(lib.PROVISIONING_STATUS) == lib.DELETED
           for record in message.get(lib.LOADBALANCERS, ())):
        return Lane.DELETION
    if any(lib.PROVISIONING_STATUS in record
           for records in message.values() for record in records):
        return Lane.PROVISIONING
    return Lane.OPERATING


def objects(message: Message) -> frozenset[tuple[str, str]]:
    """(plural name of the kind, id) of all records."""
    return frozenset((plural, record[lib.ID])
                     for plural, records in message.items()
                     for record in records)


def merged(messages: Iterable[Message]) -> Message:
    """One message with all records."""
    result: Message = {}
    for message in messages:
        for plural, records in message.items():
            result.setdefault(plural, []).extend(records)
    return result
