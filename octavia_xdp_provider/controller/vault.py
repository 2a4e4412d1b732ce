# SPDX-License-Identifier: Apache-2.0
"""The controllers' keys: what opens, encrypts and seals tenants' secrets.

The driver seals for the controllers' public key. They store ciphertext only,
and seal for one node when that asks. Contents are nowhere but in memory for
that moment. Both files are the same on all control hosts, and are read at each
use, so that keys change without a restart.
"""

from collections.abc import Iterable
import pathlib
from typing import cast

from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.bundles import bundle as bundles
from octavia_xdp_provider.bundles import key_file
from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.bundles import storage
from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import sealed
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import bundles as stored
from octavia_xdp_provider.process import ages

LOG = logging.getLogger(__name__)

_UNUSABLE = ('this cloud cannot store certificates at present',
             'try again later, or ask its operator')


class VaultError(Exception):
    """A key cannot be read, or fits nothing that is stored."""


class Vault:
    """Opens, encrypts and seals bundles."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._options = conf.secrets

    def storage(self) -> storage.Storage:
        """Return what encrypts and decrypts the database's rows.

        :raises VaultError: there is no usable key.
        """
        path = pathlib.Path(self._options.keys_file)
        try:
            return storage.Storage(key_file.read(path).decode(
                'ascii', 'replace').split())
        except OSError as error:
            raise VaultError(f'[secrets] keys_file: {error}') from error
        except storage.StorageError as error:
            raise VaultError(str(error)) from error

    def receive(self, change: changes.Change
                ) -> tuple[changes.Change, list[stored.Bundle]]:
        """Return a change without the bundles that it brings along, and these
        as they are stored.

        :raises Refused: one cannot be opened or stored; names the option.
        """
        sent = change.get('bundles')
        if sent is None:
            return change, []
        options = sealed.options(cast(spec.Document, _tree(change)))
        load_balancer_id = change.get('load_balancer_id', '')
        received = []
        for name, text in sent.items():
            option = options.get(name, 'bundles')
            try:
                bundle = self._pair().open(text, load_balancer_id, name)
                if bundle.kind == bundles.Kind.TICKETS:
                    raise sealing.SealError('it contains no certificate')
                received.append(self._encrypt(bundle, load_balancer_id))
            except (VaultError, sealing.SealError) as error:
                raise errors.Refused(
                    option, *_UNUSABLE, f'bundle {name}: {error}') from None
        rest = cast(changes.Change, {
            key: value for key, value in change.items() if key != 'bundles'})
        return rest, received

    def seal(self, load_balancer_id: str, row: stored.Bundle,
             public_key: str) -> str:
        """Return a stored bundle, sealed for a node.

        :raises VaultError: it cannot be decrypted.
        """
        try:
            bundle = self.storage().decrypt(row.ciphertext)
            if bundle.name(load_balancer_id) != row.name:
                raise storage.StorageError('the row has another bundle')
            return sealing.seal(bundle, public_key)
        except (storage.StorageError, sealing.SealError) as error:
            raise VaultError(f'bundle {row.name} of load balancer '
                             f'{load_balancer_id}: {error}') from None

    def renew_tickets(self, load_balancer_id: str, row: stored.Bundle | None,
                      now: float) -> stored.Bundle:
        """Return keys of tickets with a new one.

        Keys that should have been replaced long ago are not used any more.

        :raises VaultError: the stored ones cannot be decrypted.
        """
        period_s = self._options.ticket_rotation
        former, missed = None, bundles.TICKET_KEYS
        if row is not None and row.expires_at is not None:
            missed = 1 + int(ages.age(row.expires_at, now) // period_s)
        if row is not None and missed < bundles.TICKET_KEYS:
            try:
                former = self.storage().decrypt(row.ciphertext)
            except storage.StorageError as error:
                raise VaultError(f'keys of tickets of load balancer '
                                 f'{load_balancer_id}: {error}') from None
        for _ in range(missed if former is not None else 1):
            former = bundles.tickets(former)
        assert former is not None
        return self._encrypt(former, load_balancer_id, now + period_s)

    def _encrypt(self, bundle: bundles.Bundle, load_balancer_id: str,
                 expires_at: float | None = None) -> stored.Bundle:
        if bundle.kind != bundles.Kind.TICKETS:
            expires_at = bundle.expires().timestamp()
        return stored.Bundle(
            bundle.name(load_balancer_id), bundle.kind.value,
            self.storage().encrypt(bundle), expires_at)

    def _pair(self) -> sealing.KeyPair:
        path = self._options.private_key_file
        try:
            return sealing.KeyPair.read(path)
        except OSError as error:
            raise VaultError(f'[secrets] private_key_file: {error}'
                             ) from error


def rotate(vault: Vault, rows: Iterable[tuple[str, stored.Bundle]]
           ) -> Iterable[tuple[str, stored.Bundle, str]]:
    """Yield (load balancer id, row, new ciphertext) of the rows that the first
    key has not encrypted.

    :raises VaultError: no key decrypts one of them.
    """
    keys = vault.storage()
    for load_balancer_id, row in rows:
        if keys.is_current(row.ciphertext):
            continue
        try:
            yield load_balancer_id, row, keys.rotate(row.ciphertext)
        except storage.StorageError as error:
            raise VaultError(f'bundle {row.name} of load balancer '
                             f'{load_balancer_id}: {error}') from None


def _tree(change: changes.Change) -> dict[str, object]:
    """Return the listeners and pools of a change, as in a document."""
    fields = change.get('fields', {})
    if change['object'] == 'loadbalancer':
        return {'listeners': fields.get('listeners'),
                'pools': fields.get('pools')}
    key = str(change['object_id'])
    return {
        'listeners': {key: fields} if change['object'] == 'listener' else {},
        'pools': {**change.get('pools', {}),
                  **({key: fields} if change['object'] == 'pool' else {})}}
