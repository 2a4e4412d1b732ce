# SPDX-License-Identifier: Apache-2.0
"""Looks at the sources again and again, and shows what was lost between."""

import time

from octavia_xdp_provider.drops import rows

# A look that a signal brings forward may follow the last one at once.
SHORTEST = 0.001


class Watch:
    """:param view: view.People or view.Programs
    :param own: own.Own, or None
    :param kernel: kernel.Kernel, or None
    :param vips: addresses, or None for those of the node's services
    """

    def __init__(self, view, own=None, kernel=None, vips=None,
                 clock=time.monotonic):
        self._view = view
        self._own = own
        self._kernel = kernel
        self._fixed = vips
        self._clock = clock
        self._missed = 0

    def _vips(self):
        vips = self._fixed
        if vips is None:
            vips = self._own.vips()
        if self._kernel is not None:
            self._kernel.watch(vips)
        return vips

    def _counters(self):
        counters = dict(self._kernel.read()) if self._kernel else {}
        if self._own is not None:
            counters.update(self._own.read())
        return counters

    def run(self, stop, interval, count=None, duration=None):
        """:param stop: threading.Event that ends it
        :param interval: seconds between two looks
        :param count: number of looks, or None
        :param duration: seconds until the end, or None
        """
        vips = self._vips()
        # Only the datapath's counters have a past.
        ledger = rows.Ledger(self._own.read() if self._own else None)
        self._view.start(vips, [
            name for name, source in ((rows.KERNEL, self._kernel),
                                      (rows.XDP, self._kernel),
                                      (rows.OWN, self._own)) if source])
        begin = last = self._clock()
        looks, why = 0, None
        while why is None:
            # From the start on, so that looks do not drift.
            wanted = begin + interval * (
                int((last - begin) / interval + 0.5) + 1)
            if duration is not None:
                wanted = min(wanted, begin + duration)
            stopped = stop.wait(max(0, wanted - self._clock()))
            now = self._clock()
            lost = ledger.update(self._counters())
            missed = self._kernel.missed() if self._kernel else 0
            looks += 1
            self._view.refresh(lost, max(now - last, SHORTEST),
                               missed - self._missed, vips)
            self._missed = missed
            last = now
            if stopped:
                why = 'signal'
            elif count is not None and looks >= count:
                why = 'count'
            elif duration is not None and now - begin >= duration:
                why = 'duration'
            else:
                vips = self._vips()
        self._view.end(why, last - begin,
                       sum(one.total for one in lost) + missed)
