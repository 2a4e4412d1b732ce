# SPDX-License-Identifier: Apache-2.0
"""One library takes the pinned state over from another, as packets flow."""

import errno
import os
import typing

from octavia_xdp_provider.node import library as libraries


class Interface(typing.NamedTuple):
    """One that runs the node's program."""
    index: int
    tag_before: str
    # False: its program is what it shall be already.
    changes: bool


class Upgrade(typing.NamedTuple):
    """What was, or would be, done."""
    layout_before: int
    layout_after: int
    # Of the program of all interfaces.
    tag_after: str
    services: int
    members: int
    interfaces: tuple[Interface, ...]
    # How many more there are than the library names.
    interfaces_more: int
    maps_new: int
    # Both programs use these: nothing in them is copied or lost.
    maps_handed: int
    # Bytes of the new maps, needed beside the old ones until all is done.
    map_bytes: int
    changes: bool


def upgrade(pin_directory: str, lock_file: str, library: str | None = None,
            from_library: str | None = None,
            dry_run: bool = False) -> Upgrade:
    """Put a library's program and layout in the place of what is pinned.

    :param library: the one that takes over. It may have another interface
        than this package needs, as one that a node goes back to: all that is
        used of it is looked up in its own header.
    :param from_library: that of the pinned layout; None: found by its name.
    :param dry_run: do all but the changes.
    :raises DatapathError: nothing has changed. ELIBACC: the pinned layout's
        library is not there.
    """
    path = libraries.path_of(library)
    ffi, api = libraries.load(path)
    if not hasattr(api, 'oxp_upgrade'):
        raise libraries.DatapathError(
            errno.ELIBBAD, f'{path} is too old to take a node over')
    error = ffi.new('char[]', api.OXP_ERROR_LENGTH)
    names = [ffi.new('char[]', os.fsencode(name))
             for name in (pin_directory, lock_file)]
    options = ffi.new('struct oxp_options *', {
        'pin_directory': names[0], 'lock_file': names[1]})
    source = (ffi.NULL if from_library is None
              else ffi.new('char[]', os.fsencode(from_library)))
    out = ffi.new('struct oxp_upgrade *')
    status = api.oxp_upgrade(options, source, dry_run, out, error)
    if status < 0:
        raise libraries.DatapathError(
            -status, ffi.string(error).decode(errors='replace'))
    known = min(out.interfaces, api.OXP_UPGRADE_INTERFACES)
    return Upgrade(
        out.layout_before, out.layout_after, bytes(out.tag_after).hex(),
        out.services, out.members,
        tuple(Interface(one.ifindex, bytes(one.tag_before).hex(),
                        bool(one.changes))
              for one in out.interface[0:known]),
        out.interfaces - known, out.maps_new, out.maps_handed, out.map_bytes,
        bool(out.changes))
