# SPDX-License-Identifier: Apache-2.0
"""What the agent of a proxy node asks the launcher to run, and the answer.

``<run directory>/wanted/<load balancer id>/`` holds two files, which the agent
writes and the launcher reads: ``haproxy.cfg``, and ``launch.json``, a
``Launch``. The agent replaces launch.json last. While its hash does not fit
the configuration, the launcher waits. Removing the directory stops HAProxy.

The launcher writes ``<run directory>/state/<load balancer id>.json``, a
``State``.

In its own view of the file system HAProxy sees ``/own``, with what is its
alone: ``/own/certificates/<name>/`` has the files of
``<run directory>/secrets/<load balancer id>/<name>/``, and it can create
sockets in ``/own/run``, which is ``<run directory>/runtime/<load balancer
id>`` on the node: the agent, whose group the directory has, finds those of the
runtime API and of masters there, and puts the one with the metrics there.
The socket at place ``n`` of the list is its descriptor
``FIRST_DESCRIPTOR + n``, and the environment variable of the socket's name has
that number, for ``bind fd@${LISTENER_0}``. It cannot bind an address by
itself: ports are the launcher's alone.
"""

from typing import Annotated
from typing import Literal

import pydantic
from typing_extensions import NotRequired
from typing_extensions import TypedDict

from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import shape

CONFIGURATION = 'haproxy.cfg'
LAUNCH = 'launch.json'
FIRST_DESCRIPTOR = 3
# In HAProxy's view.
OWN = '/own'
RUN = f'{OWN}/run'
CERTIFICATES = f'{OWN}/certificates'
# In RUN. A master has a number of its own, so that those before it, which end
# with their last connection, can be asked as well.
RUNTIME_SOCKET = 'runtime.sock'
MASTER_SOCKET = 'master-{}.sock'
MASTER_SOCKET_PATTERN = r'^master-\d{1,9}\.sock$'
METRICS_SOCKET = 'metrics.sock'

UUID = (r'^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-'
        r'[0-9a-f]{12}$')
_MIB = 1 << 20

Hash = Annotated[str, pydantic.Field(pattern=r'^[0-9a-f]{64}$')]
Name = Annotated[str, pydantic.Field(pattern=r'^[0-9A-Za-z_-]{1,64}$')]
Variable = Annotated[str, pydantic.Field(
    pattern=r'^LISTENER_[0-9A-Za-z_]{1,64}$')]
Address = Annotated[str, fields.refuse(fields.address_problem)]
Port = Annotated[int, pydantic.Field(ge=1, le=65535)]


@shape.strict
class Endpoint(TypedDict):
    """An address and port that HAProxy may connect to."""

    address: Address
    port: Port


@shape.strict
class Tunnel(TypedDict):
    """A tunnel to a hypervisor.

    :ivar address: of its end; with ``encapsulation`` srv6 a SID.
    :ivar key: of the member there, never 0.
    """

    address: Address
    encapsulation: Literal['geneve', 'srv6']
    key: fields.TunnelKey


@shape.strict
class Token(TypedDict):
    """An address of [proxy] token_networks, and where packets to it go.

    :ivar member: the address of the VM.
    """

    address: Address
    member: Address
    tunnel: Tunnel


@shape.strict
class ListeningSocket(TypedDict):
    """A TCP socket that accepts connections of clients.

    :ivar name: of the environment variable that has the descriptor.
    """

    name: Variable
    address: Address
    port: Port


@shape.strict
class Launch(TypedDict):
    """How the HAProxy of a load balancer runs.

    :ivar number: its uid and gid, used by no other load balancer.
    :ivar members: all that it may connect to.
    :ivar tokens: the members that are behind hypervisors; missing: none.
    :ivar connections: the largest ``maxconn`` that a configuration may have
        without a new generation.
    :ivar threads: ``nbthread`` of the configuration.
    :ivar memory_bytes: of all its processes, also of those that drain.
    :ivar cpu_weight: relative to other load balancers, as cpu.weight of
        cgroups: 100 is usual.
    :ivar stop_after_s: how long a process that is replaced may serve the
        connections it has. One that is no longer wanted has a few seconds at
        most: LB nodes send it nothing any more.
    :ivar configuration_hash: SHA-256 of haproxy.cfg.
    :ivar certificates: name of the directory with them, if there are any.
    """

    number: Annotated[int, pydantic.Field(ge=1, le=2 ** 31 - 1)]
    sockets: Annotated[list[ListeningSocket],
                       pydantic.Field(max_length=256)]
    members: Annotated[list[Endpoint], pydantic.Field(max_length=16384)]
    tokens: NotRequired[Annotated[list[Token],
                                  pydantic.Field(max_length=16384)]]
    connections: Annotated[int, pydantic.Field(ge=1, le=1_000_000)]
    threads: Annotated[int, pydantic.Field(ge=1, le=64)]
    memory_bytes: Annotated[int, pydantic.Field(ge=16 * _MIB, le=2 ** 50)]
    cpu_weight: Annotated[int, pydantic.Field(ge=1, le=10000)]
    stop_after_s: Annotated[int, pydantic.Field(ge=0, le=86400)]
    configuration_hash: Hash
    certificates: Name | None


# waiting: nothing runs yet. refused: what is wanted cannot be used, as the
# error says; what served before goes on. failed: HAProxy does not stay alive,
# and its sockets are closed until it is tried again.
Phase = Literal['waiting', 'running', 'refused', 'failed', 'stopping']


@shape.strict
class State(TypedDict):
    """What runs for a load balancer.

    :ivar configuration_hash: of the configuration that is served.
    :ivar pid: of HAProxy's master.
    :ivar restarts: how often it was started again after it had died.
    :ivar listening: whether clients can connect. Only then, and only while
        there is a pid, is somebody there to answer.
    :ivar judged_hash: of the configuration that ``error`` is about. While it
        is another one than the agent has written last, the launcher has not
        reached that one yet.
    """

    phase: Phase
    configuration_hash: Hash | None
    certificates: Name | None
    pid: int | None
    restarts: int
    listening: bool
    error: str | None
    judged_hash: Hash | None


LAUNCH_SHAPE = shape.Shape(Launch)
STATE_SHAPE = shape.Shape(State)
