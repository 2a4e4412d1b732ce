# SPDX-License-Identifier: Apache-2.0
"""Figures of Matplotlib as SVG inside of a page.

Text stays text and takes the page's colour, so that it can be read in dark and
in light; nothing is fetched from anywhere.
"""

from collections.abc import Callable
import io
import re
from xml.sax import saxutils

import matplotlib
from matplotlib import figure as figures

# Of texts and lines; the page's instead, as no series has it.
_INK = '#010203'

# Okabe and Ito (2008): told apart with each kind of colour blindness, without
# black and yellow, which are not seen on one of the two backgrounds.
COLOURS = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#56b4e9', '#e69f00')
MARKERS = ('o', 's', '^', 'D', 'v', 'P')
LINES = ('-', '--', '-.', ':', (0, (5, 1)), (0, (3, 1, 1, 1)))

_SETTINGS = {
    'svg.fonttype': 'none', 'text.parse_math': False, 'text.usetex': False,
    'font.family': 'sans-serif', 'font.sans-serif': ['DejaVu Sans'],
    'figure.facecolor': 'none', 'axes.facecolor': 'none',
    'savefig.facecolor': 'none', 'legend.framealpha': 0.0,
    'axes.edgecolor': _INK, 'axes.labelcolor': _INK, 'text.color': _INK,
    'xtick.color': _INK, 'ytick.color': _INK, 'grid.color': '#8888887f',
    'axes.grid': True, 'axes.axisbelow': True, 'axes.spines.top': False,
    'axes.spines.right': False, 'axes.unicode_minus': False,
}


def draw(name: str, title: str, description: str,
         plot: Callable[[figures.Figure], None],
         height: float = 3.6) -> str:
    """An <svg> element.

    :param name: unique on the page, letters and digits: prefix of ids.
    :param description: what is to be seen, for who does not see it.
    :param height: inches; the width is 7.2.
    """
    with matplotlib.rc_context({**_SETTINGS, 'svg.hashsalt': name}):
        figure = figures.Figure(figsize=(7.2, height), layout='constrained')
        plot(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format='svg', metadata=dict.fromkeys(
            ('Creator', 'Date', 'Format', 'Type')))
    return _inline(buffer.getvalue(), name, title, description)


def _inline(document, name, title, description):
    """Without what a page must not have twice, or at all."""
    body = document[document.index('<svg'):]
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'url\(#', f'url(#{name}-', body)
    body = re.sub(r'xlink:href="#', f'href="#{name}-', body)
    head, rest = body.split('>', 1)
    head = re.sub(r' (width|height|xmlns:xlink|version)="[^"]*"', '', head)
    return (
        f'{head} role="img" aria-labelledby="{name}-title {name}-text">'
        f'<title id="{name}-title">{saxutils.escape(title)}</title>'
        f'<desc id="{name}-text">{saxutils.escape(description)}</desc>'
        f'{rest}').replace(_INK, 'currentColor').strip()
