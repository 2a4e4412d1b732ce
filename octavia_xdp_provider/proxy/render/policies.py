# SPDX-License-Identifier: Apache-2.0
"""L7 policies of a listener.

HAProxy evaluates ``http-request deny`` before ``redirect`` and that before
``use_backend``, whatever their order in the file. Octavia documents the same
(its L7 guide, "Policy position"): REJECT comes first, then redirects to URLs,
then those to pools, each by position. So policies are written in this order.
"""

from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.proxy.render import quoting

_ORDER = {'REJECT': 0, 'REDIRECT_TO_URL': 1, 'REDIRECT_PREFIX': 1,
          'REDIRECT_TO_POOL': 2}
_MATCH = {'REGEX': 'reg', 'STARTS_WITH': 'beg', 'ENDS_WITH': 'end',
          'CONTAINS': 'sub', 'EQUAL_TO': 'str'}
# Octavia's default of redirect_http_code.
_REDIRECT_CODE = 302


def lines(listener_id: str, listener: proxy_spec.Listener,
          pools: dict[str, proxy_spec.Pool]) -> list[str]:
    """Return the directives of a listener's policies."""
    result = []
    for _key, policy in sorted(proxy_spec.policies_in_use(listener),
                               key=lambda item: _ORDER[item[1]['action']]):
        words = _action_words(listener_id, policy, pools)
        if not words:
            continue
        rules = proxy_spec.rules_in_use(policy)
        result += [quoting.line('acl', key, *_condition_words(rule))
                   for key, rule in rules]
        result.append(quoting.line(*words, 'if', *(
            f'!{key}' if rule['invert'] else key for key, rule in rules)))
    return result


def _action_words(listener_id: str, policy: proxy_spec.Policy,
                  pools: dict[str, proxy_spec.Pool]) -> list[str]:
    """Return what a policy does; nothing if its pool is disabled, as in
    Octavia."""
    action = policy['action']
    if action == 'REJECT':
        return ['http-request', 'deny']
    if action == 'REDIRECT_TO_POOL':
        pool_id = policy['redirect_pool_id'] or ''
        if not pools[pool_id]['admin_state_up']:
            return []
        return ['use_backend', f'{pool_id}:{listener_id}']
    code = str(policy['redirect_http_code'] or _REDIRECT_CODE)
    if action == 'REDIRECT_PREFIX':
        return ['redirect', 'code', code, 'prefix',
                policy['redirect_prefix'] or '']
    return ['redirect', 'code', code, 'location', policy['redirect_url'] or '']


def _condition_words(rule: proxy_spec.Rule) -> list[str]:
    """Return what a rule compares, and with what.

    "--" ends the flags: a value that begins with "-" is no flag.
    """
    kind, key, value = rule['type'], rule['key'], rule['value']
    match = ['-m', _MATCH[rule['compare_type']]]
    if kind == 'SSL_CONN_HAS_CERT':
        return ['ssl_c_used']
    if kind == 'SSL_VERIFY_RESULT':
        return ['ssl_c_verify', 'eq', value]
    if kind == 'HOST_NAME':
        return ['req.hdr(host)', '-i', *match, '--', value]
    if kind == 'FILE_TYPE' and rule['compare_type'] == 'EQUAL_TO':
        # path_end compares ends of paths; "-m str" would not.
        return ['path_end', '--', value]
    fetch = {'PATH': 'path', 'FILE_TYPE': 'path_end',
             'HEADER': f'req.hdr({key})', 'COOKIE': f'req.cook({key})',
             'SSL_DN_FIELD': f'ssl_c_s_dn({key})'}[kind]
    return [fetch, *match, '--', value]
