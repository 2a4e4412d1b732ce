# SPDX-License-Identifier: Apache-2.0
"""All queries of the controller, each in one transaction."""

from octavia_xdp_provider.controller.store import balance
from octavia_xdp_provider.controller.store import conditions
from octavia_xdp_provider.controller.store import deltas
from octavia_xdp_provider.controller.store import documents
from octavia_xdp_provider.controller.store import figures
from octavia_xdp_provider.controller.store import host_reports
from octavia_xdp_provider.controller.store import hypervisors
from octavia_xdp_provider.controller.store import nodes
from octavia_xdp_provider.controller.store import placements
from octavia_xdp_provider.controller.store import registration
from octavia_xdp_provider.controller.store import reports
from octavia_xdp_provider.controller.store import requests
from octavia_xdp_provider.controller.store import sent_statuses
from octavia_xdp_provider.controller.store import situations
from octavia_xdp_provider.controller.store import ways
from octavia_xdp_provider.controller.store import work


class Store(balance.Balance, conditions.Conditions, deltas.Deltas,
            documents.Documents, figures.FiguresQueries,
            host_reports.HostReports, hypervisors.Hypervisors, nodes.Nodes,
            placements.Placements, registration.Registration,
            reports.Reports, requests.Requests, sent_statuses.SentStatuses,
            situations.Situations, ways.Ways, work.WorkQueue):
    """The wanted state in the database."""
