# SPDX-License-Identifier: Apache-2.0
"""Read the sources at an interval, and show the losses in between."""

import time

from octavia_xdp_provider.drops import rows

# A signal may cause the last reading right after the one before it.
SHORTEST_S = 0.001


class Watch:
    """:param view: view.Tables or view.JsonLines
    :param datapath: datapath_drops.DatapathDrops, or None
    :param kernel: kernel.Kernel, or None
    :param vips: addresses, or None for those of the node's services and the
        hypervisor's members
    :param host: host_drops.HostDrops, or None
    """

    def __init__(self, view, datapath=None, kernel=None, vips=None,
                 clock=time.monotonic, host=None):
        self._view = view
        self._datapath = datapath
        self._host = host
        # Their counters began before the start, and they have VIPs.
        self._datapaths = [source for source in (datapath, host)
                           if source is not None]
        self._kernel = kernel
        self._fixed = vips
        self._clock = clock
        self._missed = 0

    def _vips(self):
        vips = self._fixed
        if vips is None:
            vips = set().union(*(source.vips() for source in self._datapaths))
        if self._kernel is not None:
            self._kernel.watch(vips)
        return vips

    def _sources(self):
        return [name for name, source in (
            (rows.KERNEL, self._kernel), (rows.XDP, self._kernel),
            (rows.DATAPATH, self._datapath), (rows.HOST, self._host))
            if source]

    def _counters(self):
        counters = dict(self._kernel.read()) if self._kernel else {}
        counters.update(self._datapath_counters())
        return counters

    def _datapath_counters(self):
        return {row: packets for source in self._datapaths
                for row, packets in source.read().items()}

    def _newly_missed(self):
        """Return how many packets were in no row since the last reading."""
        before = self._missed
        if self._kernel is not None:
            self._missed = self._kernel.missed()
        return self._missed - before

    def run(self, end, interval_s, count=None, duration_s=None):
        """:param end: its ``wait(seconds)`` returns true at the end
        :param count: number of readings, or None
        :param duration_s: end after this time, or None
        """
        vips = self._vips()
        # Only the datapaths' counters began before the start.
        ledger = rows.Ledger(self._datapath_counters())
        self._view.start(vips, self._sources())
        begin = last = self._clock()
        readings, why = 0, None
        while why is None:
            # Multiples of the interval since the start do not drift.
            due = begin + interval_s * (
                int((last - begin) / interval_s + 0.5) + 1)
            if duration_s is not None:
                due = min(due, begin + duration_s)
            is_stopped = end.wait(max(0, due - self._clock()))
            now = self._clock()
            lost = ledger.update(self._counters())
            readings += 1
            self._view.refresh(lost, max(now - last, SHORTEST_S),
                               self._newly_missed(), vips)
            last = now
            if is_stopped:
                why = 'signal'
            elif count is not None and readings >= count:
                why = 'count'
            elif duration_s is not None and now - begin >= duration_s:
                why = 'duration'
            else:
                vips = self._vips()
        self._view.end(why, last - begin,
                       sum(entry.total for entry in lost) + self._missed)
