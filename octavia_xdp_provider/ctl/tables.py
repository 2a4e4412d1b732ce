# SPDX-License-Identifier: Apache-2.0
"""What decides on packets, read from the node once."""

import ipaddress


class Tables:
    """What the node's tables hold, read once."""

    def __init__(self, node, links):
        self._node = node
        self._links = links
        self.services = {one.key: one for one in node.services()}
        self.vips = {}
        for key in self.services:
            self.vips.setdefault(key.address, []).append(key)
        self.settings = node.node_settings()
        self.uplinks, self.choices = node.uplinks()
        self._members, self._allowed = {}, {}

    def version(self):
        """Grows or changes with all that is read here."""
        return (frozenset((one.key, one.generation)
                          for one in self.services.values()),
                self.settings, tuple(self.uplinks), self.choices)

    def members(self, key):
        """By index."""
        if key not in self._members:
            self._members[key] = {one.index: one
                                  for one in self._node.members(key)}
        return self._members[key]

    def allowed(self, key):
        if key not in self._allowed:
            self._allowed[key] = [ipaddress.ip_network(text)
                                  for text in self._node.allowed(key)]
        return self._allowed[key]

    def interface(self, ifindex):
        return self._links.name(ifindex)
