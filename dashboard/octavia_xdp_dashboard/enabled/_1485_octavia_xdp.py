# SPDX-License-Identifier: Apache-2.0
"""Goes into openstack_dashboard/local/enabled, behind octavia-dashboard's."""

FEATURE = 'octavia_xdp'
ADD_INSTALLED_APPS = ['octavia_xdp_dashboard']
ADD_ANGULAR_MODULES = ['horizon.dashboard.project.octavia_xdp']
AUTO_DISCOVER_STATIC_FILES = True
