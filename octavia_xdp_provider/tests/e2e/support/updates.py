# SPDX-License-Identifier: Apache-2.0
"""A tenant that changes a pool all the time."""

from openstack import exceptions

from lab import background
from lab import cloud
from lab import namespaces
from lab import paths


class Updates(background.Background):
    """Changes members' weights one after the other, during a `with` block."""

    def __init__(self, lab, pool, made):
        super().__init__()
        self._lab = lab
        self._pool = pool
        self._made = made
        self.weights = {host: member.weight for host, member in made.items()}
        self.errors = []
        self.count = 0

    def work(self):
        """Update until the end of the block."""
        with namespaces.inside(self._lab, paths.CONTROL):
            sdk = cloud.connect(self._lab).load_balancer
            hosts = sorted(self._made)
            while not self.ending.is_set():
                host = hosts[self.count % len(hosts)]
                weight = 1 + self.count % 9
                try:
                    sdk.update_member(self._made[host], self._pool,
                                      weight=weight)
                except exceptions.ConflictException:
                    # The last update is still under way.
                    self.ending.wait(0.1)
                    continue
                except exceptions.SDKException as error:
                    # Refused as a whole: nothing may have changed.
                    self.errors.append(str(error))
                else:
                    self.weights[host] = weight
                self.count += 1
                self.ending.wait(0.05)
