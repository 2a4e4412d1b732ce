# SPDX-License-Identifier: Apache-2.0
"""Octavia, controller and LB nodes together, case by case in one lab.

See bench/control/README.rst for what each figure includes.
"""

import signal
import types
import warnings

from bench.control import burst
from bench.control import changes
from bench.control import cluster
from bench.control import fleet
from bench.control import node

FLEET = 'fleet'


def run(asked):
    """Return figures and further values by case, in the order of the settings,
    where the most invasive case comes last."""
    settings = types.SimpleNamespace(**asked.settings)
    if settings.fleet_nodes > fleet.NODES_MAX:
        raise ValueError(f'fleet_nodes: at most {fleet.NODES_MAX}')
    warnings.filterwarnings('ignore', module='openstack')
    # Clean up on TERM too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results = {}
    if wanted := [case for case in settings.cases if case != FLEET]:
        results = _in_lab(settings, wanted)
    if FLEET in settings.cases:
        results[FLEET] = fleet.run(settings)
    return ({case: values for case, (values, _more) in results.items()},
            {case: more for case, (_values, more) in results.items()})


def _in_lab(settings, wanted):
    """Run the cases on two real nodes."""
    here = cluster.Cluster(settings.lab, settings.load_balancers,
                           settings.members)
    cases = {
        'idle_pass': lambda: node.idle(here, settings.idle_seconds),
        'api_to_map': lambda: changes.api_to_map(here, settings.rounds),
        'create_active': lambda: changes.create_active(
            here, max(1, settings.rounds // 5)),
        'burst': lambda: burst.run(here, settings.burst),
        'cold_node': lambda: node.cold(here),
    }
    results = {}
    with here.running(settings.keep):
        for case in wanted:
            results[case] = cases[case]()
            print(case, *results[case], flush=True)
    return results
