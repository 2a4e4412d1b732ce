# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-manage as an operator runs it, on a store of the test's."""

import io
import json

from octavia_xdp_provider.manage import app
from octavia_xdp_provider.tests.unit.controller import base


class ManageTestCase(base.StoreTestCase):

    def run_command(self, *arguments):
        """Returns (exit status, what was printed, errors)."""
        out, err = io.StringIO(), io.StringIO()
        application = app.Application(stdout=out, stderr=err)
        status = application.run([
            '--config-file', self.conf.default_config_files[0], *arguments])
        return status, out.getvalue(), err.getvalue()

    def done(self, *arguments):
        """What a command printed that succeeded."""
        status, out, err = self.run_command(*arguments)
        self.assertEqual(0, status, err)
        return out

    def refused(self, *arguments):
        """The error of a command that did not."""
        status, out, err = self.run_command(*arguments)
        self.assertEqual(1, status, out)
        return err

    def listed(self, *arguments):
        return json.loads(self.done(*arguments, '-f', 'json'))
