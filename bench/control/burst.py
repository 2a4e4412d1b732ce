# SPDX-License-Identifier: Apache-2.0
"""Many load balancers at once: the provider's share of the time.

Spans are read from the controller's log. They begin with the line that a
driver's request is stored, and end with the line that Octavia was sent the
status or, for deletions, with the line that no node has the load balancer.
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
_ACTIVE = re.compile(_STAMP + r'Load balancer ' + _UUID
                     + r' is ACTIVE as of')
_GONE = re.compile(_STAMP + r'Load balancer ' + _UUID
                   + r': no node has it any more')
_DELETED = re.compile(_STAMP + r'Load balancer ' + _UUID + r' is deleted')
# Seconds to wait for log lines: they are about answers, which may arrive long
# after Octavia has set the status.
_SETTLE_S = 30.0


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
        creations = _wait_for_spans(log, offset, ids, _ACTIVE)
        offset = log.stat().st_size
        deleting = time.monotonic()
        clusters.together(ids, cluster.api.delete)
        gone = max(statuses.wait(ids, 'DELETED', poll_s=0.02).values())
        sent = _wait_for_spans(log, offset, ids, _DELETED)
        removals = _wait_for_spans(log, offset, ids, _GONE)
    own = [*creations, *removals]
    if len(own) + len(sent) != 3 * number:
        raise octavia.Failed(
            f'the log has {len(creations)} creations and of '
            f'{len(removals)} and {len(sent)} deletions, {number} were made')
    return {'p50_s': _percentile(own, 50), 'p99_s': _percentile(own, 99),
            'deletions_sent_p50_s': _percentile(sent, 50),
            'deletions_sent_p99_s': _percentile(sent, 99)}, {
        'load_balancers': number, 'clients': clusters.CLIENTS,
        'create_p50_s': _percentile(creations, 50),
        'create_p99_s': _percentile(creations, 99),
        'remove_p50_s': _percentile(removals, 50),
        'remove_p99_s': _percentile(removals, 99),
        'api_s': round(created - began, 1),
        'all_active_s': round(active - began, 1),
        'all_deleted_s': round(gone - deleting, 1)}


def _percentile(samples, percent):
    return round(figures.percentile(samples, percent), 2)


def _wait_for_spans(log, offset, ids, end):
    """Return spans when the log has all of them, or after a timeout."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        spans = _spans(log, offset, ids, end)
        if len(spans) == len(ids) or time.monotonic() > deadline:
            return spans
        time.sleep(0.2)


def _spans(log, offset, ids, end):
    """Return seconds from "Stored" to ``end``, where both lines exist."""
    stored, spans = {}, {}
    with open(log, errors='replace') as file:
        file.seek(offset)
        for line in file:
            if match := _STORED.match(line):
                stored[match[2]] = _time(match[1])
            elif (match := end.match(line)) and match[2] in stored:
                spans.setdefault(match[2],
                                 _time(match[1]) - stored[match[2]])
    return [spans[key] for key in ids if key in spans]


def _time(text):
    return datetime.datetime.fromisoformat(text).timestamp()
