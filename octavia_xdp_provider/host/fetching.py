# SPDX-License-Identifier: Apache-2.0
"""Fetches from the controller what this hypervisor should have.

Works as on LB nodes (process/agents/fetching.py). Each answer also carries the
data common to all hypervisors, which is cached in a file of its own.
"""

import json
import pathlib
import typing

from oslo_log import log as logging

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.host import documents
from octavia_xdp_provider.process import atomic_file
from octavia_xdp_provider.process.agents import fetching
from octavia_xdp_provider.process.agents import wanted as wanted_state

LOG = logging.getLogger(__name__)

HOSTS = fetching.Shapes(
    shape.Shape(host_messages.FetchAnswer),
    shape.Shape(host_messages.CompareAnswer),
    shape.Shape(list[host_messages.Entry]), host_messages.DOCUMENTS_PAGE)
_MODE = 0o600


class Fetcher(fetching.Fetcher):
    """Fetches documents and the common data.

    :param common_path: file that caches the common data.
    :param changed: called when the common data have changed.
    :ivar common: host_spec.Common; None until known.
    :ivar refused: why the controller refuses this hypervisor, or None.
    """

    def __init__(self, controller: typing.Any, host: str,
                 cache: wanted_state.Cache, common_path: str,
                 changed: typing.Callable[[], None] = lambda: None) -> None:
        super().__init__(controller, host, cache, shapes=HOSTS)
        self._changed = changed
        self._common_path = pathlib.Path(common_path)
        self._saved = self.common = load_common(common_path)
        self.refused: str | None = None

    def look_at(self, page: host_messages.FetchAnswer) -> None:
        refused = page['refused']
        if refused != self.refused and refused:
            LOG.error('The controller refuses this hypervisor: %s. Keeping '
                      'the present configuration.', refused)
        self.refused = refused
        if refused:
            raise errors.Refused(
                'host', 'the controller refuses this hypervisor',
                f'see what it says: {refused}')
        if page['common'] != self.common:
            self.common = page['common']
            self._changed()

    def take(self, entry: host_messages.Entry,
             held: dict[str, wanted_state.Entry], marks: fetching.Marks
             ) -> None:
        held[entry['id']] = entry['generation'], documents.kept(entry)

    def save(self) -> None:
        super().save()
        if self.common is not None and self.common != self._saved:
            try:
                atomic_file.replace(self._common_path, json.dumps(
                    self.common).encode(), _MODE)
            except OSError as error:
                LOG.error('%s cannot be written: %s', self._common_path,
                          error.strerror or error)
            else:
                self._saved = self.common


def load_common(path: str) -> host_spec.Common | None:
    """Return the cached common data; None if missing or unusable."""
    try:
        common = json.loads(pathlib.Path(path).read_bytes())
        host_spec.check_common(common)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, errors.Refused) as error:
        LOG.error('%s cannot be used (%s); waiting for the controller.',
                  path, error)
        return None
    return typing.cast(host_spec.Common, common)
