# SPDX-License-Identifier: Apache-2.0
"""Grafana's dashboards in deploy/grafana, as tests need them."""

import json
import pathlib
import re
import typing

DIRECTORY = pathlib.Path(__file__).parents[3] / 'deploy/grafana'
RULES = DIRECTORY.with_name('prometheus') / 'octavia-xdp.rules.yaml'
# Grafana's own variables, in place of what it computes from the screen's
# width and Prometheus' scrape interval.
GRAFANAS = {'__rate_interval': '5m'}
_LABEL_VALUES = re.compile(r'label_values\((.+), (\w+)\)')
_VARIABLE = re.compile(r'\$(?:\{(\w+)(?::(regex))?\}|(\w+))')


class Query(typing.NamedTuple):
    """``title``: of the panel, with its row's."""

    title: str
    text: str


class Variable(typing.NamedTuple):
    """The values of ``label`` of ``series``, a selector; what ``regex``
    has in parentheses, if there is one, of each."""

    name: str
    series: str
    label: str
    regex: str


def load():
    """Name of the file → dashboard."""
    return {path.name: json.loads(path.read_text())
            for path in sorted(DIRECTORY.glob('*.json'))}


def queries(dashboard):
    """All of Prometheus."""
    queries, row = [], ''
    for panel in dashboard['panels']:
        if panel['type'] == 'row':
            row = panel['title']
            continue
        queries += [Query(f'{row}: {panel["title"]}', target['expr'])
                    for target in panel['targets']]
    return queries


def variables(dashboard):
    """Those that are read from Prometheus, in their order.

    :raises ValueError: it asks for something else than values of labels.
    """
    variables = []
    for variable in dashboard['templating']['list']:
        if variable['type'] != 'query':
            continue
        query = variable['query']['query']
        match = _LABEL_VALUES.fullmatch(query)
        if match is None:
            raise ValueError(f'{variable["name"]}: {query}')
        variables.append(Variable(variable['name'], *match.groups(),
                                  variable['regex'].strip('/')))
    return variables


def fill(text, values):
    """A query as Grafana sends it.

    :param values: name of a variable → value.
    :raises KeyError: a variable that there is not.
    """
    values = {**GRAFANAS, **values}

    def value(match):
        text = values[match.group(1) or match.group(3)]
        return re.escape(text) if match.group(2) else text
    return _VARIABLE.sub(value, text)
