# SPDX-License-Identifier: Apache-2.0
"""Types of layer-7 fields, with Octavia's names and values.

Both the load balancer's document (contracts/spec.py) and what proxy nodes are
sent of it (contracts/proxy_spec.py) have them. They check the structure;
api/l7.py refuses values that proxies cannot serve.
"""

from typing import Annotated
from typing import Literal

import pydantic
from typing_extensions import TypedDict

from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import shape

ClientAuthentication = Literal['NONE', 'OPTIONAL', 'MANDATORY']
TlsVersion = Literal['SSLv3', 'TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3']
AlpnProtocol = Literal['h2', 'http/1.1', 'http/1.0']
Action = Literal['REJECT', 'REDIRECT_TO_URL', 'REDIRECT_PREFIX',
                 'REDIRECT_TO_POOL']
RuleType = Literal['HOST_NAME', 'PATH', 'FILE_TYPE', 'HEADER', 'COOKIE',
                   'SSL_CONN_HAS_CERT', 'SSL_VERIFY_RESULT', 'SSL_DN_FIELD']
CompareType = Literal['REGEX', 'STARTS_WITH', 'ENDS_WITH', 'CONTAINS',
                      'EQUAL_TO']
RedirectCode = Literal[301, 302, 303, 307, 308]
InsertedHeader = Literal[
    'X-Client-IP', 'X-Forwarded-For', 'X-Forwarded-IP', 'X-Forwarded-Port',
    'X-Forwarded-Proto', 'X-Real-IP',
    'X-SSL-Client-CN', 'X-SSL-Client-DN', 'X-SSL-Client-Has-Cert',
    'X-SSL-Client-Not-After', 'X-SSL-Client-Not-Before', 'X-SSL-Client-SHA1',
    'X-SSL-Client-Verify', 'X-SSL-Issuer']
# A keyed SHA-256 over everything in a bundle.
BundleHash = Annotated[str, pydantic.Field(pattern=r'^[0-9a-f]{64}$')]
Position = Annotated[int, pydantic.Field(ge=1, le=2 ** 31 - 1)]
Age = Annotated[int, pydantic.Field(ge=0, le=2 ** 31 - 1)]


@shape.strict
class Rule(TypedDict):
    """``key``: name of the header, the cookie or the field of the subject;
    null for other types."""

    admin_state_up: bool
    type: RuleType
    compare_type: CompareType
    key: str | None
    value: str
    invert: bool


@shape.strict
class Policy(TypedDict):
    """What happens to requests that match all enabled rules."""

    admin_state_up: bool
    action: Action
    position: Position
    redirect_pool_id: fields.Uuid | None
    redirect_url: str | None
    redirect_prefix: str | None
    redirect_http_code: RedirectCode | None
    rules: dict[fields.Uuid, Rule]
