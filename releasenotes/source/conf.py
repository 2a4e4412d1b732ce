# SPDX-License-Identifier: Apache-2.0
"""How Sphinx renders the release notes."""

project = 'octavia-xdp-provider release notes'
author = 'the octavia-xdp-provider authors'
copyright = author

extensions = ['reno.sphinxext']
master_doc = 'index'
html_theme = 'alabaster'
html_show_sourcelink = False
