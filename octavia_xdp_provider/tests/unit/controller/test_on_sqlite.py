# SPDX-License-Identifier: Apache-2.0
"""The tests of the store on SQLite.

tests/functional/control/test_store.py runs them on MariaDB and PostgreSQL.
"""

from octavia_xdp_provider.tests.unit.controller.cases import bundles
from octavia_xdp_provider.tests.unit.controller.cases import leases
from octavia_xdp_provider.tests.unit.controller.cases import node_reports
from octavia_xdp_provider.tests.unit.controller.cases import requests
from octavia_xdp_provider.tests.unit.controller.cases import roles
from octavia_xdp_provider.tests.unit.controller.cases import several_vips
from octavia_xdp_provider.tests.unit.controller.cases import store
from octavia_xdp_provider.tests.unit.controller.cases import transactions
from octavia_xdp_provider.tests.unit.controller.cases import ways
from octavia_xdp_provider.tests.unit.controller.cases import zones

CASES = (
    bundles.Bundles, bundles.Tickets, leases.Leases, node_reports.NodeReports,
    requests.Requests, roles.Roles, several_vips.BothFamilies, store.Schema,
    store.Store, transactions.Marks, transactions.Writers, ways.Migration,
    ways.Order,
    zones.Zones)

for case in CASES:
    name = f'Test{case.__name__}'
    globals()[name] = type(case)(
        name, (case,), {'__module__': __name__, '__doc__': case.__doc__})
# A loader would run it once more.
del case
