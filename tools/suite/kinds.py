# SPDX-License-Identifier: Apache-2.0
"""The kinds of tests, and the parts that each of them consists of.

"make test" runs the kinds of ``SHORT``. Each of ``LONG`` runs by its name, in
``make test-all``, and in CI when a change can break it (``reach.toml`` says
which can) or when it is its turn.
"""

import dataclasses
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Kind:
    """Tests that are asked for by one name.

    :param about: what it is, for people.
    :param seconds: how long it takes on two processors that nothing else
        needs, with cached packages and with what "make test" has built; CI
        does not begin what would not end in time.
    """

    name: str
    about: str
    seconds: int | None = None


SHORT = (
    Kind('lint', 'linters of all languages, documents'),
    Kind('unit', 'Python (stestr), Rust (cargo), C (BPF_PROG_TEST_RUN)'),
    Kind('functional', 'parts against a real kernel, ExaBGP, BIRD, RabbitMQ, '
         'MariaDB; the forwarding program against packets and its model'),
    Kind('kernel', 'all BPF programs loaded by Linux 6.1, under QEMU'),
    Kind('e2e', 'the whole product in a lab, and the demonstration'),
    Kind('devstack', 'the plugin of DevStack, phase by phase'),
)

LONG = (
    Kind('kernels', "the datapath on all of Debian's kernels, under QEMU",
         720),
    Kind('kernels-all', 'every test of the datapath on each of these '
         'kernels', 2400),
    Kind('datapath', 'C tests and packets, all flows, deaths and frames', 840),
    Kind('node', "an LB node's parts, each death and each outage", 900),
    Kind('control', "the control plane's parts, on each database, in any "
         'order of faults', 1680),
    Kind('tenant', 'all that a tenant asks for, and clients of others', 1380),
    Kind('faults', 'processes of a lab killed, paused, cut off', 1500),
    Kind('fault-matrix-1', 'each process of a lab killed and paused', 900),
    Kind('fault-matrix-2', 'each of them cut off for 10 s', 600),
    Kind('fault-matrix-3', 'each of them cut off for 3 minutes', 2400),
    Kind('isolation', 'a hostile tenant, hostile VMs and stolen machines '
         'beside others', 600),
    Kind('proxies', 'layer 7 by proxy nodes, and what fails there', 600),
    Kind('ovn', 'members on hypervisors with OVN', 1500),
    Kind('bench', 'test beds, their traffic and what it is sent through',
         1620),
    Kind('bench-commands', 'each benchmark, with the fewest rounds', 400),
    Kind('bench-guests', 'benchmarks in guests and by SSH', 2400),
    Kind('testbed', 'machines that people share: switches and boot in guests, '
         'pages in a real browser', 1000),
    Kind('horizon', "a tenant's walk through Horizon, in a real browser", 420),
    Kind('packages', "sdist, wheel and crate; Debian's packages, from build "
         'to purge', 800),
    Kind('roles', "Ansible's roles, twice, and an upgrade with traffic", 1100),
    Kind('devstack-lab', "the plugin of DevStack on a lab's servers", 600),
    Kind('demos', 'the commands of the README, below a closed directory',
         1440),
    Kind('debian-12', 'the same commands from nothing, on Debian 12', 2400),
    Kind('debian-13', 'the same commands from nothing, on Debian 13', 2400),
    Kind('octavia-api-1', "Octavia's own tests of its API, first part", 300),
    Kind('octavia-api-2', 'the second part of these', 1500),
    Kind('octavia-api-3', 'the third part of these', 1500),
)

LONG_NAMES = tuple(kind.name for kind in LONG)
BY_NAME = {kind.name: kind for kind in SHORT + LONG}
# Parts with tests in Python, which regular expressions can select.
PYTHON = ('unit-python', 'packets', 'functional-node', 'functional-control',
          'functional-bench', 'e2e-tenant', 'e2e-faults', 'e2e-isolation',
          'e2e-isolation-vms', 'e2e-proxies', 'e2e-ovn', 'e2e-bench',
          'functional-testbed', 'e2e-testbed', 'release')


def kernels():
    """The names in tools/kernels.txt."""
    lines = (ROOT / 'tools' / 'kernels.txt').read_text().splitlines()
    return [line.split()[0] for line in lines
            if line and not line.startswith('#')]
