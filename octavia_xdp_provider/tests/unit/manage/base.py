# SPDX-License-Identifier: Apache-2.0
"""Run octavia-xdp-manage on the store of a test case."""

import io
import json

from octavia_xdp_provider.manage import app
from octavia_xdp_provider.tests.unit.controller import base


class ManageTestCase(base.StoreTestCase):

    def configure(self, text):
        """Add to the configuration."""
        with open(self.conf.default_config_files[0], 'a') as file:
            file.write(text)

    def run_command(self, *arguments):
        """Return (exit status, standard output, standard error)."""
        out, err = io.StringIO(), io.StringIO()
        application = app.Application(stdout=out, stderr=err)
        status = application.run([
            '--config-file', self.conf.default_config_files[0], *arguments])
        return status, out.getvalue(), err.getvalue()

    def done(self, *arguments):
        """Run a command that succeeds, and return its output."""
        status, out, err = self.run_command(*arguments)
        self.assertEqual(0, status, err)
        return out

    def refused(self, *arguments):
        """Run a command that is refused, and return its error."""
        status, out, err = self.run_command(*arguments)
        self.assertEqual(1, status, out)
        return err

    def listed(self, *arguments):
        return json.loads(self.done(*arguments, '-f', 'json'))
