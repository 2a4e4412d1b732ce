# SPDX-License-Identifier: Apache-2.0
"""Many at once: what of the time is the provider's.

It is read from the controller's log: from the line that a request of the
driver is stored to the line that Octavia was told.
"""

import contextlib
import datetime
import re
import time

from bench.control import cluster as clusters
from bench.control import figures
from bench.control import octavia

_STAMP = r'^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) .*'
_UUID = r'([0-9a-f-]{36})'
_STORED = re.compile(_STAMP + r'Stored (?:create|delete) of loadbalancer '
                     + _UUID)
_TOLD = re.compile(_STAMP + r'Load balancer ' + _UUID
                   + r' (?:is ACTIVE as of|is deleted)')
# For the log to be written.
_SETTLE_S = 2.0


def run(cluster, number):
    """Create load balancers at once, then delete them at once."""
    log = cluster.controller_log()
    offset = log.stat().st_size
    with contextlib.closing(octavia.Statuses(cluster.lab)) as statuses:
        began = time.monotonic()
        ids = clusters.together(range(number),
                                lambda _: cluster.create_one())
        created = time.monotonic()
        active = max(statuses.wait(ids, 'ACTIVE', poll_s=0.02).values())
        time.sleep(_SETTLE_S)
        creations = _spans(log, offset, ids)
        offset = log.stat().st_size
        deleting = time.monotonic()
        clusters.together(ids, cluster.api.delete)
        gone = max(statuses.wait(ids, 'DELETED', poll_s=0.02).values())
        time.sleep(_SETTLE_S)
        deletions = _spans(log, offset, ids)
    both = [*creations.values(), *deletions.values()]
    if len(both) != 2 * number:
        raise octavia.Failed(f'the log tells of {len(both)} of {2 * number} '
                             'creations and deletions')
    return {'p50_s': round(figures.percentile(both, 50), 2),
            'p99_s': round(figures.percentile(both, 99), 2)}, {
        'load_balancers': number, 'clients': clusters.CLIENTS,
        'create_p50_s': round(figures.percentile(creations.values(), 50), 2),
        'delete_p50_s': round(figures.percentile(deletions.values(), 50), 2),
        'api_s': round(created - began, 1),
        'all_active_s': round(active - began, 1),
        'all_deleted_s': round(gone - deleting, 1)}


def _spans(log, offset, ids):
    """Id → seconds from stored to told."""
    stored, spans = {}, {}
    with open(log, errors='replace') as file:
        file.seek(offset)
        for line in file:
            if match := _STORED.match(line):
                stored[match[2]] = _time(match[1])
            elif (match := _TOLD.match(line)) and match[2] in stored:
                spans.setdefault(match[2],
                                 _time(match[1]) - stored[match[2]])
    return {key: spans[key] for key in ids if key in spans}


def _time(text):
    return datetime.datetime.fromisoformat(text).timestamp()
