# SPDX-License-Identifier: Apache-2.0
"""Configurations of HAProxy in a form in which equal meaning is equal."""

from octavia_xdp_provider.tests.support import haproxy_words

# Options of "server" and "bind" with an argument; others stand alone.
_WITH_ARGUMENT = frozenset((
    'addr', 'alpn', 'ca-file', 'check-alpn', 'ciphers', 'ciphersuites',
    'cookie', 'crl-file', 'crt', 'crt-list', 'fall', 'id', 'inter', 'port',
    'rise', 'sni', 'ssl-max-ver', 'ssl-min-ver', 'tls-ticket-keys', 'verify',
    'weight'))
# HAProxy evaluates these in this order, and those of a kind in the file's.
_ORDERED = (('http-request', 'deny'), ('redirect',), ('use_backend',))


def parse(text):
    """Return directives by the words of their section. Those whose order has
    a meaning come first, in the order of evaluation, the others sorted.

    A directive is a tuple of words; options of "server" and "bind" are a
    dictionary in its last place.
    """
    result = {}
    for name, lines in haproxy_words.sections(text).items():
        directives = [_directive(words) for words in lines]
        ordered = [directive for start in _ORDERED for directive in directives
                   if directive[:len(start)] == start]
        others = [directive for directive in directives
                  if directive not in ordered]
        result[name] = ordered + sorted(others, key=str)
    return result


def _directive(words):
    if words[0] in ('server', 'bind') and 'unix@' not in words[-1]:
        fixed = 3 if words[0] == 'server' else 2
        return (*words[:fixed], _options(words[fixed:]))
    if 'if' in words:
        # All conditions have to hold, in whatever order.
        position = words.index('if') + 1
        words = words[:position] + sorted(words[position:])
    return tuple(words)


def _options(words):
    result = {}
    rest = iter(words)
    for name in rest:
        assert name not in result, name
        if name == 'check-ssl':
            # "verify" after it is part of the check in Octavia's text.
            result[name] = next(rest), next(rest)
        else:
            result[name] = next(rest) if name in _WITH_ARGUMENT else True
    return result
