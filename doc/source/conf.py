# SPDX-License-Identifier: Apache-2.0
"""How Sphinx renders the documentation."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE.parent / 'ext')]

project = 'octavia-xdp-provider'
author = 'the octavia-xdp-provider authors'
copyright = author

extensions = [
    'openstackdocstheme',
    'oslo_config.sphinxconfiggen',
    'oslo_config.sphinxext',
    'sphinx.ext.graphviz',
    'command_reference',
    'diagrams',
    'exabgp_example',
    'outcome_table',
    'status_table',
    'support_table',
]
master_doc = 'index'
exclude_patterns = []
templates_path = ['_templates']
nitpicky = True
graphviz_output_format = 'svg'

html_theme = 'openstackdocs'
# Pages tell nobody who reads them.
html_theme_options = {'analytics_tracking_code': '', 'display_badge': False}
html_show_sourcelink = False
openstackdocs_repo_name = 'openstack/octavia-xdp-provider'
openstackdocs_use_storyboard = False
openstackdocs_pdf_link = False

# Below build/, as all that is made.
config_generator_config_file = (
    '../../etc/octavia-xdp/octavia-xdp-config-generator.conf')
sample_config_basename = '../../build/octavia-xdp'

_COMMANDS = {
    'octavia-xdp-agent': 'makes an LB node what the controllers want',
    'octavia-xdp-announcer': 'commands ExaBGP what to announce',
    'octavia-xdp-controller': 'wanted state, placement, statuses of Octavia',
    'octavia-xdp-ctl': 'what an LB node does with packets, and why',
    'octavia-xdp-drops': 'where and why a machine loses packets of VIPs',
    'octavia-xdp-hc': 'health checker of an LB node',
    'octavia-xdp-host': 'what a hypervisor does with packets of members',
    'octavia-xdp-host-agent': 'makes a hypervisor serve members in its VMs',
    'octavia-xdp-manage': "the operator's command on a control host",
    'octavia-xdp-member': 'prepares a member of load balancers',
    'octavia-xdp-proxy-agent': 'makes a proxy node serve load balancers',
    'octavia-xdp-proxy-launcher': 'HAProxy processes of a proxy node',
    'octavia-xdp-result-handler': 'health results into the lookup tables',
    'octavia-xdp-status': 'is this control host ready for this release',
}
# Of octavia-xdp-member, which is in /usr/sbin, the section is 8.
man_pages = [
    (f'cli/{name}', name, description, [],
     8 if name == 'octavia-xdp-member' else 1)
    for name, description in _COMMANDS.items()]
man_show_urls = False
