# SPDX-License-Identifier: Apache-2.0
"""Which values of layer-7 objects proxies serve.

Each function returns why a value is refused and what to do instead, or None.
Octavia has checked some of it before, but not all: it accepts names that
HAProxy reads as several arguments, regular expressions that HAProxy refuses,
and, with octavia 19.0.0, control characters in regular expressions of a
single create call.

Rules that span objects are in api/proxied.py.
"""

import re
import ssl
import unicodedata
import urllib.parse

from octavia_xdp_provider.api import regex
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import proxy_spec

# Why a field is refused, with the field's name.
FieldProblem = tuple[str, errors.Problem]

TEXT_MAX = 2048
# Octavia's own limit: HAProxy's lines have 64 words.
RULES_MAX = 50

# Names of headers and of cookies are tokens of RFC 9110. The quote is left
# out: HAProxy gives it a meaning in arguments of sample fetches.
_TOKEN = re.compile(r"[0-9A-Za-z!#$%&*+.^_`|~-]{1,255}")
_SUBJECT_FIELD = re.compile(r'[A-Za-z][0-9A-Za-z-]{0,63}')
_CIPHERS = re.compile(r'[0-9A-Za-z+!:@=_.-]+')
_URL = re.compile(r'[!-~]+')
_VERIFY_RESULT = re.compile(r'[0-9]{1,9}')
_FILE_TYPE_COMPARE = ('REGEX', 'EQUAL_TO')

# Control characters, and halves of surrogate pairs, which have no bytes.
_BAD_CATEGORIES = ('Cc', 'Cs')

# TLS 1.3 has names of its own for ciphers, and an option of its own for them.
TLS13_CIPHERS = frozenset((
    'TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384',
    'TLS_CHACHA20_POLY1305_SHA256', 'TLS_AES_128_CCM_SHA256',
    'TLS_AES_128_CCM_8_SHA256'))
_VERSIONS = ('TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3')


def text_problem(value: str) -> errors.Problem | None:
    """Refuse what could end a line of a configuration, and what has no
    encoding. It applies to every text that a proxy's configuration has."""
    if not value:
        return 'it is empty', 'give a value'
    if len(value) > TEXT_MAX:
        return (f'it has {len(value)} characters',
                f'use at most {TEXT_MAX}')
    for position, character in enumerate(value):
        if unicodedata.category(character) in _BAD_CATEGORIES:
            return (f'its character {position + 1} is '
                    f'U+{ord(character):04X}, a control character or no '
                    'character at all',
                    'leave it out; in a regular expression, write \\x and '
                    'two hexadecimal digits')
    return None


def regex_problem(value: str) -> errors.Problem | None:
    return text_problem(value) or regex.problem(value)


def token_problem(value: str) -> errors.Problem | None:
    """Check the name of a header or a cookie."""
    if _TOKEN.fullmatch(value):
        return None
    return (f'the name {value!r} is not 1 to 255 letters, digits and '
            'characters of !#$%&*+.^_`|~-', 'use a name of these characters')


def subject_field_problem(value: str) -> errors.Problem | None:
    """Check the name of a field of a certificate's subject."""
    if _SUBJECT_FIELD.fullmatch(value):
        return None
    return (f'{value!r} is no field of a certificate\'s subject',
            'use a name such as CN, O, OU or emailAddress')


def url_problem(value: str) -> errors.Problem | None:
    """Check a URL, or the beginning of one, that clients are redirected to."""
    problem = text_problem(value)
    if problem:
        return problem
    if not _URL.fullmatch(value):
        return (f'the URL {value!r} has spaces or characters that are not '
                'ASCII', 'percent-encode them, and write the host\'s name in '
                'its ASCII form')
    try:
        parts = urllib.parse.urlsplit(value)
        complete = parts.scheme in ('http', 'https') and bool(parts.hostname)
        _port = parts.port
    except ValueError:
        complete = False
    if not complete:
        return (f'{value!r} is no URL with a scheme and a host',
                'begin it with http:// or https:// and a host')
    return None


def ciphers_problem(value: str) -> errors.Problem | None:
    """Check a list of ciphers in OpenSSL's syntax.

    OpenSSL ignores names that it does not know, but HAProxy does not start if
    nothing is left. The OpenSSL of a proxy node may know fewer than the one
    here.
    """
    problem = text_problem(value)
    if problem:
        return problem
    if not _CIPHERS.fullmatch(value):
        return (f'the list {value!r} has characters that no cipher has',
                'separate the names of ciphers with colons')
    older, _newer = split_ciphers(value)
    try:
        if older:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(older)
    except ssl.SSLError:
        return (f'the list {older!r} has no cipher that OpenSSL knows',
                'name ciphers as "openssl ciphers" shows them')
    return None


def versions_problem(value: list[proxy_spec.TlsVersion]
                     ) -> errors.Problem | None:
    if not value:
        return 'the list is empty', 'name a version, or leave the list out'
    if 'SSLv3' in value:
        return ('SSLv3 is broken, and no OpenSSL of a supported distribution '
                'has it', 'use TLSv1.2 and TLSv1.3')
    positions = sorted({_VERSIONS.index(version) for version in value})
    if positions[-1] - positions[0] >= len(positions):
        return ('a client says which newest version it has, so a version '
                'between two others cannot be left out',
                'use versions that follow one another')
    return None


def split_ciphers(ciphers: str) -> tuple[str, str]:
    """Return the ciphers up to TLS 1.2 and those of TLS 1.3, each joined with
    colons in the given order."""
    names = ciphers.split(':')
    return (':'.join(name for name in names if name not in TLS13_CIPHERS),
            ':'.join(name for name in names if name in TLS13_CIPHERS))


def rule_problem(rule: proxy_spec.Rule) -> FieldProblem | None:
    """Check a rule of a policy, as Octavia's l7rule_data does, and more."""
    value = rule['value']
    problem = (regex_problem(value) if rule['compare_type'] == 'REGEX'
               else text_problem(value))
    if problem:
        return 'value', problem
    kind = rule['type']
    if kind in ('SSL_CONN_HAS_CERT', 'SSL_VERIFY_RESULT'):
        return _certificate_problem(rule)
    if kind == 'FILE_TYPE' and rule['compare_type'] not in _FILE_TYPE_COMPARE:
        return 'compare_type', (
            f'a rule of type FILE_TYPE cannot compare by '
            f'{rule["compare_type"]}', 'use EQUAL_TO or REGEX')
    return _key_problem(rule)


def _certificate_problem(rule: proxy_spec.Rule) -> FieldProblem | None:
    kind, value = rule['type'], rule['value']
    if rule['compare_type'] != 'EQUAL_TO':
        return 'compare_type', (
            f'a rule of type {kind} cannot compare by {rule["compare_type"]}',
            'use EQUAL_TO')
    if kind == 'SSL_CONN_HAS_CERT' and value.lower() != 'true':
        return 'value', (
            f'the value {value!r} is not supported',
            'use True, and invert the rule for connections without one')
    if kind == 'SSL_VERIFY_RESULT' and not _VERIFY_RESULT.fullmatch(value):
        return 'value', (
            f'the value {value!r} is no result of a verification',
            'use 0 for success, or a number of OpenSSL\'s X509_V_ERR')
    return _key_problem(rule)


def _key_problem(rule: proxy_spec.Rule) -> FieldProblem | None:
    checks = {'HEADER': token_problem, 'COOKIE': token_problem,
              'SSL_DN_FIELD': subject_field_problem}
    key, check = rule['key'], checks.get(rule['type'])
    problem: errors.Problem | None
    if check is None:
        problem = (f'a rule of type {rule["type"]} compares nothing by name',
                   'leave it out') if key else None
    else:
        problem = (check(key) if key
                   else ('it is missing', 'name what the rule compares'))
    return problem and ('key', problem)


def policy_problem(policy: proxy_spec.Policy) -> FieldProblem | None:
    """Check a policy without its rules."""
    needed = {'REDIRECT_TO_URL': 'redirect_url',
              'REDIRECT_PREFIX': 'redirect_prefix',
              'REDIRECT_TO_POOL': 'redirect_pool_id'}.get(policy['action'])
    targets = {'redirect_url': policy['redirect_url'],
               'redirect_prefix': policy['redirect_prefix'],
               'redirect_pool_id': policy['redirect_pool_id']}
    for name, target in targets.items():
        if name == needed and not target:
            return name, ('it is missing', 'say where requests go')
        if name != needed and target:
            return name, (f'a policy with action {policy["action"]} does not '
                          'use it', 'leave it out')
    if len(policy['rules']) > RULES_MAX:
        return 'rules', (f'there are {len(policy["rules"])}',
                         f'use at most {RULES_MAX} for a policy')
    for name in ('redirect_url', 'redirect_prefix'):
        url = targets[name]
        problem = url and url_problem(url)
        if problem:
            return name, problem
    return None
