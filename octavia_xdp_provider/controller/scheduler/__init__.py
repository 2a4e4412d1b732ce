# SPDX-License-Identifier: Apache-2.0
"""Places load balancers on LB nodes, and on proxy nodes where they need some.

Decisions about one role see only the nodes and placements of that role.

A module may import only those below it in this list:

* ``balancing``: searches for load balancers to be moved by ``rebalance``
* ``service``: reads one load balancer's rows and stores its moves
* ``rebalance``: moves that spread load balancers over zones or only even out
  the load
* ``proxy_decision``: the same for proxy nodes
* ``decision``: the moves that one load balancer needs among LB nodes
* ``filters`` and ``weighers``: plugins that tell which nodes may take a load
  balancer, and which of them is best
* ``removal_budget``: the number of removals that need no confirmation
* ``moves``: changes of placements and their reasons
* ``spread``: how nodes of a load balancer are spread over zones
* ``cluster``: the nodes as input of a decision
* ``liveness``: tells dead nodes from an outage of the reporting path
"""
