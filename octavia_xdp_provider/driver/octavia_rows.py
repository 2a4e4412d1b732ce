# SPDX-License-Identifier: Apache-2.0
"""Parts of listeners in the transaction that creates a load balancer.

Octavia's own conversion of a fully populated load balancer lacks L7 policies
and references to certificates for further names: it has read the listeners
before. So they are taken from the rows of the transaction, which are objects
of Octavia's database models (octavia.db.models).
"""

from typing import Any

from octavia_lib.api.drivers import data_models

from octavia_xdp_provider.driver import transactions

# Octavia's tables.
_POLICIES, _RULES, _SNI = 'l7policy', 'l7rule', 'sni'


def l7_policies(transaction: transactions.Transaction
                ) -> dict[str, list[data_models.L7Policy]]:
    """Return the new policies with their rules, by the listener's id."""
    rules: dict[str, list[data_models.L7Rule]] = {}
    for row in transaction.new_rows.get(_RULES, ()):
        rules.setdefault(row.l7policy_id, []).append(_rule(row))
    policies: dict[str, list[data_models.L7Policy]] = {}
    for row in transaction.new_rows.get(_POLICIES, ()):
        policies.setdefault(row.listener_id, []).append(
            _policy(row, rules.get(row.id, [])))
    return policies


def sni_references(transaction: transactions.Transaction
                   ) -> dict[str, list[str]]:
    """Return new references to certificates, by the listener's id."""
    references: dict[str, list[str]] = {}
    for row in transaction.new_rows.get(_SNI, ()):
        references.setdefault(row.listener_id, []).append(
            row.tls_container_id)
    return references


def _policy(row: Any, rules: list[data_models.L7Rule]
            ) -> data_models.L7Policy:
    return data_models.L7Policy(
        l7policy_id=row.id, admin_state_up=row.enabled, rules=rules, **{
            name: getattr(row, name) for name in (
                'name', 'project_id', 'listener_id', 'action', 'position',
                'redirect_pool_id', 'redirect_url', 'redirect_prefix',
                'redirect_http_code')})


def _rule(row: Any) -> data_models.L7Rule:
    return data_models.L7Rule(
        l7rule_id=row.id, admin_state_up=row.enabled, **{
            name: getattr(row, name) for name in (
                'project_id', 'l7policy_id', 'type', 'compare_type', 'key',
                'value', 'invert')})
