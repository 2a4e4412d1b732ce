# SPDX-License-Identifier: Apache-2.0
"""Octavia's statuses, folded from documents and what the nodes report."""

from octavia_lib.common import constants as lib

# Plural names of Octavia's status message by kind of object.
PLURALS = {'loadbalancer': lib.LOADBALANCERS, 'listener': lib.LISTENERS,
           'pool': lib.POOLS, 'member': lib.MEMBERS,
           'healthmonitor': lib.HEALTHMONITORS}

_MEMBER_STATES = {'up': lib.ONLINE, 'down': lib.ERROR}


def member_status(member, monitored, states):
    """Operating status of one member.

    :param states: what each node says of it: "up", "down" or "unknown".
        Nodes that disagree make it DEGRADED. A member without weight takes
        no new flows: it is DRAINING where others are fine.
    """
    if not member['admin_state_up']:
        return lib.OFFLINE
    draining = member['weight'] == 0
    if not monitored:
        return lib.DRAINING if draining else lib.NO_MONITOR
    known = {_MEMBER_STATES[state] for state in states
             if state in _MEMBER_STATES}
    if known == {lib.ONLINE} and draining:
        return lib.DRAINING
    if len(known) == 1:
        return known.pop()
    return lib.DEGRADED if known else lib.OFFLINE


def _worst(statuses, none):
    """Fold the statuses of parts that share the work."""
    statuses = set(statuses)
    if not statuses:
        return none
    if statuses <= {lib.ONLINE, lib.NO_MONITOR}:
        return lib.ONLINE
    if len(statuses) == 1:
        return statuses.pop()
    return lib.DEGRADED


def _pool_status(members):
    """Operating status of a pool, from those of its enabled members.

    As with the reference provider: a member that is down degrades it, also
    a backup; a draining one does not, unless nobody takes new flows.
    """
    if members and set(members) <= {lib.DRAINING, lib.ERROR}:
        return lib.ERROR
    return _worst([status for status in members
                   if status != lib.DRAINING], lib.ONLINE)


def operating_statuses(document, reports, nodes_failing=False):
    """Operating status of every object of a load balancer.

    :param reports: host → {member id: state}, of the live nodes.
    :param nodes_failing: some live node could not do its part.
    :returns: (kind, id) → operating status.
    """
    result = {}
    up = document['admin_state_up']
    for pool_id, pool in document['pools'].items():
        monitor = pool['healthmonitor']
        monitored = bool(monitor and monitor['admin_state_up'])
        enabled = []
        for member_id, member in pool['members'].items():
            states = [report.get(member_id, 'unknown')
                      for report in reports.values()]
            status = member_status(member, monitored and up, states)
            result['member', member_id] = status
            if member['admin_state_up']:
                enabled.append(status)
        if monitor:
            result['healthmonitor', monitor['id']] = (
                lib.ONLINE if monitored else lib.OFFLINE)
        result['pool', pool_id] = (
            _pool_status(enabled) if pool['admin_state_up'] and up
            else lib.OFFLINE)
    listeners = []
    for listener_id, listener in document['listeners'].items():
        status = lib.OFFLINE
        if listener['admin_state_up'] and up:
            status = result.get(('pool', listener['default_pool_id']),
                                lib.ONLINE)
            listeners.append(status)
        result['listener', listener_id] = status
    balancer = _worst(listeners, lib.ONLINE) if up else lib.OFFLINE
    if nodes_failing and balancer == lib.ONLINE:
        balancer = lib.DEGRADED
    result['loadbalancer', document['id']] = balancer
    return result


def message(operating, provisioning=None, removed=()):
    """A status message for DriverLibrary.update_loadbalancer_status.

    :param operating: (kind, id) → operating status.
    :param provisioning: provisioning status of all these objects; None
        leaves it alone.
    :param removed: (kind, id) of deleted objects.
    """
    result = {plural: [] for plural in PLURALS.values()}
    for kind, key in removed:
        result[PLURALS[kind]].append(
            {lib.ID: key, lib.PROVISIONING_STATUS: lib.DELETED})
    for (kind, key), status in operating.items():
        entry = {lib.ID: key, lib.OPERATING_STATUS: status}
        if provisioning:
            entry[lib.PROVISIONING_STATUS] = provisioning
        result[PLURALS[kind]].append(entry)
    return {plural: entries for plural, entries in result.items() if entries}
