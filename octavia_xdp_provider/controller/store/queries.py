# SPDX-License-Identifier: Apache-2.0
"""All queries of the controller, by what they are about."""

from typing import Any

from octavia_xdp_provider.controller.store import balance
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import bundles
from octavia_xdp_provider.controller.store import deltas
from octavia_xdp_provider.controller.store import figures
from octavia_xdp_provider.controller.store import histories
from octavia_xdp_provider.controller.store import host_reports
from octavia_xdp_provider.controller.store import hypervisors
from octavia_xdp_provider.controller.store import leases
from octavia_xdp_provider.controller.store import load_balancers
from octavia_xdp_provider.controller.store import nodes
from octavia_xdp_provider.controller.store import placements
from octavia_xdp_provider.controller.store import reports
from octavia_xdp_provider.controller.store import requests
from octavia_xdp_provider.controller.store import sent_statuses
from octavia_xdp_provider.controller.store import situations
from octavia_xdp_provider.controller.store import ways
from octavia_xdp_provider.controller.store import work


class Store:
    """The database: an object for each group of tables or queries.

    Objects share the transactions of ``database`` and nothing else. Each
    method is one transaction.
    """

    def __init__(self, manager: Any) -> None:
        self.database = database = base.Database(manager)
        self.balance = balance.Balance(database)
        self.bundles = bundles.Bundles(database)
        self.deltas = deltas.Deltas(database)
        self.figures = figures.FiguresQueries(database)
        self.histories = histories.Histories(database)
        self.host_reports = host_reports.HostReports(database)
        self.hypervisors = hypervisors.Hypervisors(database)
        self.leases = leases.Leases(database)
        self.load_balancers = load_balancers.LoadBalancers(database)
        self.nodes = nodes.Nodes(database)
        self.placements = placements.Placements(database)
        self.reports = reports.Reports(database)
        self.requests = requests.Requests(database)
        self.sent_statuses = sent_statuses.SentStatuses(database)
        self.situations = situations.Situations(database)
        self.ways = ways.Ways(database)
        self.work = work.WorkQueue(database)
