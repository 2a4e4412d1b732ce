# SPDX-License-Identifier: Apache-2.0
"""What the controller asks its database, each in one transaction."""

from octavia_xdp_provider.controller.store import balance
from octavia_xdp_provider.controller.store import conditions
from octavia_xdp_provider.controller.store import deltas
from octavia_xdp_provider.controller.store import documents
from octavia_xdp_provider.controller.store import figures
from octavia_xdp_provider.controller.store import nodes
from octavia_xdp_provider.controller.store import placements
from octavia_xdp_provider.controller.store import registration
from octavia_xdp_provider.controller.store import reports
from octavia_xdp_provider.controller.store import requests
from octavia_xdp_provider.controller.store import sent_statuses
from octavia_xdp_provider.controller.store import situations
from octavia_xdp_provider.controller.store import work


class Store(balance.Balance, conditions.Conditions, deltas.Deltas,
            documents.Documents, figures.FiguresQueries, nodes.Nodes,
            placements.Placements, registration.Registration,
            reports.Reports, requests.Requests, sent_statuses.SentStatuses,
            situations.Situations, work.WorkQueue):
    """The wanted state, kept."""
