# SPDX-License-Identifier: Apache-2.0
"""Clients by their names in scenarios."""

from bench.traffic.clients import h2load
from bench.traffic.clients import iperf3
from bench.traffic.clients import wrk

KINDS = {'wrk': wrk.Wrk, 'h2load': h2load.H2load, 'iperf3': iperf3.Iperf3}
