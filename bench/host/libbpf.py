# SPDX-License-Identifier: Apache-2.0
"""The part of libbpf that the benchmarks' own programs need."""

import ctypes
import os
import pathlib

BUILD = pathlib.Path(__file__).parents[2] / 'datapath/build'


class _Context(ctypes.Structure):
    """The start of struct __sk_buff."""

    _fields_ = [('before', ctypes.c_uint32 * 10),
                ('ifindex', ctypes.c_uint32)]


class _Options(ctypes.Structure):
    """struct bpf_test_run_opts"""

    _fields_ = [('sz', ctypes.c_size_t),
                ('data_in', ctypes.c_void_p), ('data_out', ctypes.c_void_p),
                ('data_size_in', ctypes.c_uint32),
                ('data_size_out', ctypes.c_uint32),
                ('ctx_in', ctypes.c_void_p), ('ctx_out', ctypes.c_void_p),
                ('ctx_size_in', ctypes.c_uint32),
                ('ctx_size_out', ctypes.c_uint32),
                ('retval', ctypes.c_uint32), ('repeat', ctypes.c_int),
                ('duration', ctypes.c_uint32), ('flags', ctypes.c_uint32),
                ('cpu', ctypes.c_uint32), ('batch_size', ctypes.c_uint32)]


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL('libbpf.so.1', use_errno=True)
    for name in ('bpf_object__open_file', 'bpf_object__find_program_by_name',
                 'bpf_object__find_map_by_name', 'bpf_map__initial_value'):
        getattr(library, name).restype = ctypes.c_void_p
    return library


class Object:
    """An object file of the datapath's build folder with its programs.

    :param name: name without the suffix.
    """

    def __init__(self, name: str):
        self._api = _library()
        path = BUILD / f'{name}.bpf.o'
        self._object = ctypes.c_void_p(self._api.bpf_object__open_file(
            str(path).encode(), None))
        if not self._object:
            raise OSError(ctypes.get_errno(), str(path))

    def _map(self, name: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._api.bpf_object__find_map_by_name(
            self._object, name.encode()))

    def resize(self, name: str, entries: int) -> None:
        _check(self._api.bpf_map__set_max_entries(self._map(name), entries))

    def take_map(self, path: pathlib.Path) -> None:
        """Use a pinned map for the map, or data section, of the same name."""
        descriptor = self._api.bpf_obj_get(str(path).encode())
        _check(min(descriptor, 0))
        try:
            _check(self._api.bpf_map__reuse_fd(self._map(path.name) or
                                               self._map('.data.' + path.name),
                                               descriptor))
        finally:
            os.close(descriptor)

    def set_constants(self, data: bytes) -> None:
        """Set `const volatile` variables, before load()."""
        size = ctypes.c_size_t()
        at = self._api.bpf_map__initial_value(self._map('.rodata'),
                                              ctypes.byref(size))
        if size.value != len(data):
            raise ValueError(f'constants have {size.value} bytes, '
                             f'not {len(data)}')
        ctypes.memmove(at, data, len(data))

    def load(self) -> None:
        _check(self._api.bpf_object__load(self._object))

    def set_element(self, name: str, value: int) -> None:
        """Set the only element of an array of words or programs."""
        _check(self._api.bpf_map_update_elem(
            self._api.bpf_map__fd(self._map(name)),
            ctypes.byref(ctypes.c_uint32(0)),
            ctypes.byref(ctypes.c_uint32(value)), ctypes.c_uint64(0)))

    def program(self, name: str) -> int:
        """Return a program's descriptor, valid until close()."""
        return self._api.bpf_program__fd(ctypes.c_void_p(
            self._api.bpf_object__find_program_by_name(
                self._object, name.encode())))

    def run(self, program: int, data: bytes, ifindex: int = 0,
            repeat: int = 1) -> tuple[int, int]:
        """Return the program's decision and mean nanoseconds for a frame."""
        context = _Context(ifindex=ifindex)
        options = _Options(
            sz=ctypes.sizeof(_Options), data_in=ctypes.cast(
                data, ctypes.c_void_p), data_size_in=len(data), repeat=repeat,
            ctx_in=ctypes.cast(ctypes.pointer(context), ctypes.c_void_p),
            ctx_size_in=ctypes.sizeof(context))
        _check(self._api.bpf_prog_test_run_opts(program,
                                                ctypes.byref(options)))
        return options.retval, options.duration

    def close(self) -> None:
        self._api.bpf_object__close(self._object)


def _check(status: int) -> None:
    if status:
        raise OSError(abs(status), 'libbpf: ' + os.strerror(abs(status)))
