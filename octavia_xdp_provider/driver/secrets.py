# SPDX-License-Identifier: Apache-2.0
"""Certificates and private keys of a listener or a pool.

Octavia reads them for the driver from where tenants have stored them. They are
checked here, so that a tenant learns at once what is wrong, and leave this
process only sealed for the controllers. Documents have nothing but names.
"""

from collections.abc import Callable
import types
from typing import Any
from typing import NamedTuple

from oslo_config import cfg
from oslo_context import context
from oslo_log import log as logging
from stevedore import driver as stevedore_driver

from octavia_xdp_provider.api import translate
from octavia_xdp_provider.bundles import bundle as bundles_
from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import sealed
from octavia_xdp_provider.contracts import spec

LOG = logging.getLogger(__name__)

_NAMESPACE = 'octavia.cert_manager'
# The rest of what a load balancer may have is for other listeners and pools.
_SNI_MAX = sealed.BUNDLES_MAX // 4


class Made(NamedTuple):
    """``fields``: names of bundles by field of the document; null for a
    reference that is reset. ``bundles``: sealed for the controllers, by name.
    """

    fields: spec.Fields
    bundles: dict[str, str]


class _Option(NamedTuple):
    """``option``: the reference in the API; ``data``: what it refers to, as
    Octavia passes it; ``field``: of the document."""

    option: str
    data: str
    field: str
    kind: bundles_.Kind


_CERTIFICATE, _AUTHORITY, _REVOCATIONS = (
    bundles_.Kind.CERTIFICATE, bundles_.Kind.AUTHORITY,
    bundles_.Kind.REVOCATIONS)
_SNI = _Option('sni_container_refs', 'sni_container_data', 'sni_bundles',
               _CERTIFICATE)
_OPTIONS = {
    'listener': (
        _Option('default_tls_container_ref', 'default_tls_container_data',
                'default_tls_bundle', _CERTIFICATE),
        _SNI,
        _Option('client_ca_tls_container_ref', 'client_ca_tls_container_data',
                'client_ca_bundle', _AUTHORITY),
        _Option('client_crl_container_ref', 'client_crl_container_data',
                'client_crl_bundle', _REVOCATIONS)),
    'pool': (
        _Option('tls_container_ref', 'tls_container_data', 'tls_bundle',
                _CERTIFICATE),
        _Option('ca_tls_container_ref', 'ca_tls_container_data', 'ca_bundle',
                _AUTHORITY),
        _Option('crl_container_ref', 'crl_container_data', 'crl_bundle',
                _REVOCATIONS)),
}
_CONTENT = {
    _CERTIFICATE: 'a certificate in PEM with its private key',
    _AUTHORITY: 'certificates of authorities in PEM',
    _REVOCATIONS: 'lists of revoked certificates (CRL) in PEM',
}


def bundles(kind: str, provider_object: object, load_balancer_id: str,
            public_key: str | None, project_id: str | None = None) -> Made:
    """Return names and sealed contents of what an object refers to.

    References that are not set have no effect, so that an update has what it
    changes. Objects below the given one are not looked at.

    :param kind: "listener" or "pool"; others refer to nothing.
    :param public_key: of the controllers; None if it is not configured.
    :param project_id: of the object, if an update lacks it.
    :raises Refused: names the option whose content cannot be used.
    """
    given = translate.attributes(provider_object)
    made = Made({}, {})
    for option in _OPTIONS.get(kind, ()):
        if option.option not in given:
            continue
        references = given[option.option]
        if not references:
            made.fields[option.field] = [] if option is _SNI else None
            continue
        if public_key is None:
            raise errors.Refused(
                option.option, 'this cloud is not set up to store '
                'certificates', 'use a protocol without them, or ask its '
                'operator', '[secrets] controller_public_key is not set '
                'where octavia-api runs')
        names = [
            _add(made, option, content, load_balancer_id, public_key)
            for content in _contents(
                option, references, given.get(option.data),
                given.get('project_id') or project_id)]
        made.fields[option.field] = names if option is _SNI else names[0]
    return made


def _add(made: Made, option: _Option, content: Any, load_balancer_id: str,
         public_key: str) -> str:
    try:
        bundle = _MAKE[option.kind](content)
    except bundles_.BundleError as error:
        # Not chained: errors of parsers may quote what they parse.
        raise errors.Refused(
            option.option, str(error),
            f'refer to {_CONTENT[option.kind]}') from None
    name = bundle.name(load_balancer_id)
    made.bundles[name] = sealing.seal(bundle, public_key)
    return name


def _contents(option: _Option, references: Any, data: Any,
              project_id: str | None) -> list[Any]:
    """Return what references refer to, in their order."""
    if option is not _SNI:
        references, data = [references], [data] if data else []
    elif len(references) > _SNI_MAX:
        raise errors.Refused(
            option.option, f'it has {len(references)} references',
            f'use at most {_SNI_MAX}')
    if data and len(data) == len(references):
        return list(data)
    # Octavia passes a listener's list of revoked certificates only along with
    # a certificate, and only references to the certificates for further names
    # of a new listener.
    return [_load(option, reference, project_id) for reference in references]


def _load(option: _Option, reference: str, project_id: str | None) -> Any:
    """Return what tenants have stored, by Octavia's own manager."""
    try:
        manager: Any = stevedore_driver.DriverManager(
            namespace=_NAMESPACE, name=cfg.CONF.certificates.cert_manager,
            invoke_on_load=True).driver
        if option.kind is _CERTIFICATE:
            content = _load_container(manager, reference, project_id)
        else:
            content = manager.get_secret(context.RequestContext(
                project_id=project_id, overwrite=False), reference)
    except Exception as error:
        LOG.warning('Octavia\'s certificate manager did not return %s %s: %s',
                    option.option, reference, type(error).__name__)
        content = None
    if content:
        return content
    raise errors.Refused(
        option.option, f'{reference} could not be read', 'check that it '
        'exists and that Octavia may read it, and try again')


def _load_container(manager: Any, reference: str, project_id: str | None
                    ) -> Any:
    """Return a certificate with its key as Octavia passes it."""
    # Octavia is not a library; the driver runs within it.
    from octavia.common.tls_utils import cert_parser
    owner = types.SimpleNamespace(project_id=project_id,
                                  tls_certificate_id=reference)
    loaded = cert_parser.load_certificates_data(manager, owner)
    return loaded['tls_cert'].to_dict(recurse=True)


def _certificate(container: Any) -> bundles_.Bundle:
    """:param container: Octavia's TLSContainer as a dictionary."""
    fields = container if isinstance(container, dict) else {}
    return bundles_.certificate(
        _bytes(fields.get('certificate')), _bytes(fields.get('private_key')),
        map(_bytes, fields.get('intermediates') or ()))


def _text(content: Any) -> bytes:
    """Return PEM. Some of Octavia's managers return a certificate as an
    object, with its key."""
    if hasattr(content, 'get_certificate'):
        content = content.get_certificate()
    return _bytes(content)


def _bytes(text: Any) -> bytes:
    if isinstance(text, str):
        return text.encode()
    return text if isinstance(text, bytes) else b''


_MAKE: dict[bundles_.Kind, Callable[[Any], bundles_.Bundle]] = {
    _CERTIFICATE: _certificate,
    _AUTHORITY: lambda content: bundles_.authority(_text(content)),
    _REVOCATIONS: lambda content: bundles_.revocations(_text(content)),
}

