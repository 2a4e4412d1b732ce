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
    'oslo_config.sphinxext',
    'exabgp_example',
    'outcome_table',
    'status_table',
    'support_table',
]
master_doc = 'index'
exclude_patterns = []
nitpicky = True

html_theme = 'alabaster'
html_theme_options = {
    'description': 'Layer-4 load balancing in XDP for OpenStack Octavia',
    'fixed_sidebar': True,
    'page_width': '1100px',
}
html_show_sourcelink = False
