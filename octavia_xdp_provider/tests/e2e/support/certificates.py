# SPDX-License-Identifier: Apache-2.0
"""Certificates of tenants, in the lab's Barbican, and traces of their keys."""

import base64
import contextlib
import pathlib

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from lab import cloud
from lab import paths
from lab import processes
from octavia_xdp_provider.tests.functional.support import bundles

_PLAIN = serialization.NoEncryption()
_PEM = serialization.Encoding.PEM


class Certificate:
    """A key and its certificate, which is its own authority.

    :ivar pem: the certificate.
    """

    def __init__(self, name, key=None):
        made = bundles.make(name, key).encode()
        self.name = name
        self.key = serialization.load_pem_private_key(made, None)
        self.certificate = x509.load_pem_x509_certificate(made)
        self.pem = self.certificate.public_bytes(_PEM)

    def key_pem(self, form=serialization.PrivateFormat.PKCS8):
        return self.key.private_bytes(_PEM, form, _PLAIN)

    def pkcs12(self):
        return pkcs12.serialize_key_and_certificates(
            self.name.encode(), self.key, self.certificate, None, _PLAIN)

    def traces(self):
        """Return parts of files, of which those with the key have one."""
        number = self.key.private_numbers().private_value.to_bytes(32, 'big')
        formats = serialization.PrivateFormat
        # Further lines have nothing but the public key.
        yield from self.key_pem().splitlines()[1:3]
        yield self.key_pem(formats.TraditionalOpenSSL).splitlines()[1]
        yield number
        for shift in range(3):
            yield base64.b64encode(bytes(shift) + number)[4:40]


def store_pkcs12(lab, certificate, user=cloud.TENANT):
    """Store a key with its certificate as users do, by the CLI.

    :returns: the reference.
    """
    # Not in the command's arguments, which errors quote.
    done = processes.run(
        lab, paths.CONTROL,
        ['openstack', 'secret', 'store', '--name', certificate.name,
         '--payload-content-type', 'application/octet-stream',
         '--payload-content-encoding', 'base64', '--file', '/dev/stdin',
         '-f', 'value', '-c', 'Secret href'],
        env=cloud.environment(lab, user),
        input=base64.b64encode(certificate.pkcs12()).decode())
    return done.stdout.strip()


def store_container(manager, certificate):
    """Store a certificate and its key in PEM as a container.

    :param manager: the SDK's key manager.
    :returns: the reference.
    """
    refs = [{'name': name, 'secret_ref': manager.create_secret(
        name=certificate.name, payload=payload.decode(), secret_type=kind,
        payload_content_type='text/plain').secret_ref}
        for name, kind, payload in (
            ('certificate', 'certificate', certificate.pem),
            ('private_key', 'private', certificate.key_pem()))]
    return manager.create_container(
        name=certificate.name, type='certificate', secret_refs=refs
    ).container_ref


def files_with_key(certificate, directory):
    """Return the paths of all files below a directory that have the key."""
    traces = list(certificate.traces())
    found = []
    for path in pathlib.Path(directory).rglob('*'):
        # Files may go meanwhile, and maps of BPF cannot be read.
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                content = path.read_bytes()
                if any(trace in content for trace in traces):
                    found.append(path)
    return found
