# SPDX-License-Identifier: Apache-2.0
"""How Sphinx renders the release notes."""

import pathlib

project = 'octavia-xdp-provider release notes'
author = 'the octavia-xdp-provider authors'
copyright = author

extensions = ['openstackdocstheme', 'reno.sphinxext']
master_doc = 'index'
# The licence's line is the documents'.
templates_path = [str(pathlib.Path(__file__).resolve().parents[2]
                      / 'doc/source/_templates')]

html_theme = 'openstackdocs'
html_theme_options = {'analytics_tracking_code': '', 'display_badge': False}
html_show_sourcelink = False
openstackdocs_repo_name = 'openstack/octavia-xdp-provider'
openstackdocs_auto_name = False
openstackdocs_use_storyboard = False
