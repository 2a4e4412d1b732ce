# SPDX-License-Identifier: Apache-2.0
"""Horizon's Django application of this plugin."""

from django import apps


class OctaviaXdp(apps.AppConfig):
    """Registers the plugin's REST views when Horizon starts."""

    name = 'octavia_xdp_dashboard'
    verbose_name = 'Octavia provider xdp'

    def ready(self):
        from octavia_xdp_dashboard.api import views  # noqa: F401
