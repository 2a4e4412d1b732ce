# SPDX-License-Identifier: Apache-2.0
"""Octavia as the controller sees it.

Statuses and statistics go out and committed load balancers come in through
octavia-driver-agent; provisioning statuses come from Octavia's API. Imports
run down this list:

* ``client``: all of it, what the rest of the controller uses
* ``sender``: status messages of many callers in few calls, in order
* ``driver_agent``: calls of octavia-driver-agent's Unix sockets
* ``api``: calls of Octavia's API
* ``limited``: calls that end for their caller, whatever the other side does
* ``options``: section ``[octavia]`` of the configuration
* ``errors``: what all of them raise
"""
