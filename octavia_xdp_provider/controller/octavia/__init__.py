# SPDX-License-Identifier: Apache-2.0
"""The controller's access to Octavia.

The controller sends statuses and statistics to octavia-driver-agent and reads
committed load balancers from it. It reads provisioning statuses from Octavia's
API. A module may import only those below it in this list:

* ``client``: the interface for the rest of the controller
* ``sender``: batches the status messages of many callers, in order
* ``driver_agent``: calls of octavia-driver-agent's Unix sockets
* ``api``: calls of Octavia's API
* ``limited``: calls with a time limit for the caller
* ``options``: section ``[octavia]`` of the configuration
* ``errors``: the exceptions that all of them raise
"""
