# SPDX-License-Identifier: Apache-2.0
"""When a pass of the worker is followed by a report."""

from unittest import mock

from octavia_xdp_provider.host import settings
from octavia_xdp_provider.host import types
from octavia_xdp_provider.host import worker
from octavia_xdp_provider.tests.unit import base


class TestReports(base.TestCase):

    def test_another_mtu_of_the_underlay_is_reported_at_once(self):
        reconciler, notify = mock.Mock(), mock.Mock()
        reconciler.prepare.return_value = []
        current = settings.Settings(types.Settings(), (2,), 1500, ())
        runner = worker.Worker(
            reconciler, mock.Mock(find_settings=lambda: current,
                                  watch=mock.Mock(taps=None)),
            mock.Mock(), notify)
        runner._pass()
        notify.reset_mock()
        runner._pass()
        notify.assert_not_called()
        current = current._replace(mtu=1400)
        runner._pass()
        notify.assert_called_once_with()
