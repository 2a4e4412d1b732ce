# SPDX-License-Identifier: Apache-2.0
"""Loads a shared library of the datapath by the text of its own header.

The binding is cffi in ABI mode: no compiler at install time, one shared
library to deploy. The library contains its header as a string, so that C and
Python share one contract that cannot drift.
"""

import errno
import os
import typing

import cffi


class LibraryError(OSError):
    """The library returned an error; errno and text are its own."""

    def __init__(self, number: int, text: str):
        super().__init__(number, text or os.strerror(number))

    @property
    def text(self) -> str:
        return self.strerror or ''


def load(path: str, error: type[LibraryError] = LibraryError
         ) -> tuple[cffi.FFI, typing.Any]:
    """Return types and functions of a library of any interface version.

    :raises LibraryError: or ``error``: this is not a datapath library.
    """
    ffi = cffi.FFI()
    ffi.cdef('extern const char oxp_api_header[];')
    try:
        header = ffi.string(ffi.dlopen(path).oxp_api_header).decode()
    except KeyError:
        raise error(errno.ELIBBAD,
                    f'{path} is not the datapath\'s library') from None
    ffi = cffi.FFI()
    ffi.cdef(header)
    return ffi, ffi.dlopen(path)


def load_version(path: str, name: str, wanted: int,
                 error: type[LibraryError] = LibraryError
                 ) -> tuple[cffi.FFI, typing.Any]:
    """The same as load() for one interface version.

    :param name: the definition in the header with the interface version.
    :raises LibraryError: or ``error``: it has another kind or version.
    """
    ffi, api = load(path, error)
    version = getattr(api, name, None)
    if version is None:
        raise error(errno.ELIBBAD,
                    f'{path} is another of the datapath\'s libraries')
    if version != wanted:
        raise error(errno.EPROTO,
                    f'{path} has interface version {version}, '
                    f'this package needs {wanted}')
    return ffi, api
