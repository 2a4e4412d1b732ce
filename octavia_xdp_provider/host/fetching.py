# SPDX-License-Identifier: Apache-2.0
"""Asks the controller what this hypervisor should have.

As LB nodes do (common/fetching.py). Beside documents there is what is common
to all hypervisors, which comes with each answer and has a file of its own.
"""

import json
import pathlib
import typing

from oslo_log import log as logging

from octavia_xdp_provider.common import atomic_file
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import fetching
from octavia_xdp_provider.common import host_messages
from octavia_xdp_provider.common import host_spec
from octavia_xdp_provider.common import shape
from octavia_xdp_provider.common import wanted as wanted_state
from octavia_xdp_provider.host import documents

LOG = logging.getLogger(__name__)

HOSTS = fetching.Shapes(
    shape.Shape(host_messages.FetchAnswer),
    shape.Shape(host_messages.CompareAnswer),
    shape.Shape(list[host_messages.Entry]), host_messages.DOCUMENTS_PAGE)
_MODE = 0o600


class Fetcher(fetching.Fetcher):
    """See there.

    :param common_path: file in which what is common is kept.
    :param changed: called when what is common is another.
    :ivar common: host_spec.Common, or None while it is not known.
    :ivar refused: why this hypervisor gets nothing, in words, or None.
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
            LOG.error('The controller refuses this hypervisor: %s. What it '
                      'has stays as it is.', refused)
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
    """What is common, as it was kept; None: it is not there, or of no use."""
    try:
        found = json.loads(pathlib.Path(path).read_bytes())
        host_spec.check_common(found)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, errors.Refused) as error:
        LOG.error('%s cannot be used (%s); waiting for the controller.',
                  path, error)
        return None
    return typing.cast(host_spec.Common, found)
