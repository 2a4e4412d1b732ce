# SPDX-License-Identifier: Apache-2.0
"""Lists suites, scenarios and test beds."""

import argparse

from bench.declarations import definitions
from bench.declarations import document
from bench.scenarios import load
from bench.scenarios import schema

HELP = 'list suites, scenarios with their cases, and test beds'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--cases', action='store_true',
                        help='with the cases of each scenario')


def run(arguments: argparse.Namespace) -> int:
    print('Suites')
    for name in definitions.names(definitions.SUITES):
        suite = document.read(definitions.find(definitions.SUITES, name),
                              schema.SUITE)
        print(f'  {name:20} {suite.data["summary"]}')
    print('Scenarios')
    for name in definitions.names(definitions.SCENARIOS):
        scenario = document.read(
            definitions.find(definitions.SCENARIOS, name), schema.SCENARIO)
        print(f'  {name:20} {scenario.data["summary"]}')
        if arguments.cases:
            for variant in load.scenario(name):
                print(f'    {variant.name}')
    print('Test beds')
    for name in definitions.names(definitions.BEDS):
        bed = document.read(definitions.find(definitions.BEDS, name), {})
        print(f'  {name:20} {bed.data.get("description", "")}')
    return 0
