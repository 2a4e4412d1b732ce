# SPDX-License-Identifier: Apache-2.0
"""Renders figures of Matplotlib as SVG within a page.

Text stays text and takes the colour of the page, so that it is readable on
dark and light backgrounds; nothing is loaded from elsewhere.
"""

from collections.abc import Callable
import io
import re
from xml.sax import saxutils

import matplotlib
from matplotlib import figure as figures

# Placeholder, unused by series, for the page's colour of texts and lines.
_INK = '#010203'

# Okabe and Ito (2008): distinguishable with each kind of colour blindness.
# Without black and yellow, which are invisible on one of the backgrounds.
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
    """Return an <svg> element.

    :param name: prefix of ids, unique on the page, of letters and digits.
    :param description: description of the plot for readers who cannot see it.
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
    """Make ids unique and remove what an inline element must not have."""
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
