# SPDX-License-Identifier: Apache-2.0
"""What a run leaves for people and for programs."""

import pathlib

from bench.results import model
from bench.results import store as stores
from bench.results import suite_json


def write(run: model.Run, store: stores.Store, folder: pathlib.Path) -> None:
    suite_json.write(run, folder / 'suite.json')
