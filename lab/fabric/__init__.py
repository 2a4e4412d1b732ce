# SPDX-License-Identifier: Apache-2.0
"""Around the control host: a router, LB nodes, members and a client."""
