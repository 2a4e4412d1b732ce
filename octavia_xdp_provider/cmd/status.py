# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-status upgrade check: is this host ready for this release?"""

import sys

from oslo_upgradecheck import upgradecheck

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import options
from octavia_xdp_provider.controller.store import schema


class Checks(upgradecheck.UpgradeCommands):
    """Checks of the control host, in the order in which to fix failures."""

    def __init__(self, conf):
        self._conf = conf

    def _configuration(self):
        try:
            options.check(self._conf)
        except option_values.ConfigurationError as error:
            return upgradecheck.Result(upgradecheck.Code.FAILURE, str(error))
        if not self._conf.vip.allowed_networks:
            return upgradecheck.Result(
                upgradecheck.Code.WARNING,
                '[vip] allowed_networks is empty: every load balancer is '
                'refused.')
        vms = self._conf.zero_touch
        if not (self._conf.members.allowed_networks or vms.member_networks):
            return upgradecheck.Result(
                upgradecheck.Code.WARNING,
                '[members] allowed_networks is empty: every member is '
                'refused.')
        if self._conf.vip.any_network:
            return upgradecheck.Result(
                upgradecheck.Code.WARNING,
                '[vip] any_network is set: a tenant\'s own subnet may have '
                'addresses of [vip] allowed_networks, and they would be '
                'announced.')
        if ((vms.mode != 'off' or vms.host_networks)
                and not vms.member_networks):
            return upgradecheck.Result(
                upgradecheck.Code.WARNING,
                '[zero_touch] member_networks is empty: VMs are members with '
                'addresses of [members] allowed_networks, where health checks '
                'and packets of every other load balancer may go as well.')
        return upgradecheck.Result(upgradecheck.Code.SUCCESS)

    def _database(self):
        manager = schema.context_manager(self._conf)
        try:
            schema.check(manager)
        except schema.SchemaError as error:
            return upgradecheck.Result(upgradecheck.Code.FAILURE, str(error))
        if schema.has_snapshot_isolation(manager):
            return upgradecheck.Result(
                upgradecheck.Code.WARNING,
                'The database server has innodb_snapshot_isolation. If '
                'Octavia has its database there, its API answers some '
                'requests by status 500, unless it is off for the sessions '
                'of Octavia. Set it to OFF.')
        return upgradecheck.Result(upgradecheck.Code.SUCCESS)

    _upgrade_checks = (('Configuration', _configuration),
                       ('Database', _database))


def main():
    conf = options.new()
    return upgradecheck.main(
        conf, project='octavia-xdp', upgrade_command=Checks(conf),
        default_config_files=options.default_config_files())


if __name__ == '__main__':
    sys.exit(main())
