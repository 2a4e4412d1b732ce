# SPDX-License-Identifier: Apache-2.0
"""Which LB nodes carry which VIP.

Imports run down this list:

* ``service``: one load balancer, from its stored rows to stored moves
* ``rebalance``: moves that only even out the load
* ``decision``: what one load balancer needs
* ``filters`` and ``weighers``: plugins that say which nodes may take a load
  balancer, and which of them is best
* ``cluster``: the nodes as a decision sees them
* ``liveness``: who is alive, and who only could not be heard
* ``removal_budget``: how many removals nobody has to confirm
"""
