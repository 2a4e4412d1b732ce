# SPDX-License-Identifier: Apache-2.0
"""What one line of memory costs that no cache has, on this machine.

``datapath/bench/host_floor.bpf.c``, loaded by libbpf.
"""

import ctypes
import pathlib

OBJECT = (pathlib.Path(__file__).parents[2] /
          'datapath/build/host_floor.bpf.o')
LEFT_ALONE = 0xffffffff
WAYS = 8  # of a set of flows


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
                 'bpf_object__find_map_by_name'):
        getattr(library, name).restype = ctypes.c_void_p
    return library


class Floor:
    """The program, with a table for that many flows."""

    def __init__(self, flows: int):
        self._api = _library()
        sets = 2
        while sets * WAYS < 2 * flows:  # as the library makes it
            sets *= 2
        self._object = ctypes.c_void_p(self._api.bpf_object__open_file(
            str(OBJECT).encode(), None))
        if not self._object:
            raise OSError(ctypes.get_errno(), str(OBJECT))
        self._check(self._api.bpf_map__set_max_entries(
            self._map(b'sets'), sets))
        self._check(self._api.bpf_object__load(self._object))
        self._check(self._api.bpf_map_update_elem(
            self._api.bpf_map__fd(self._map(b'mask')),
            ctypes.byref(ctypes.c_uint32(0)),
            ctypes.byref(ctypes.c_uint32(sets - 1)), ctypes.c_uint64(0)))
        self._program = self._api.bpf_program__fd(ctypes.c_void_p(
            self._api.bpf_object__find_program_by_name(
                self._object, b'oxp_host_floor')))

    def _map(self, name: bytes) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._api.bpf_object__find_map_by_name(
            self._object, name))

    @staticmethod
    def _check(status: int) -> None:
        if status:
            raise OSError(abs(status), 'libbpf')

    def run(self, data: bytes) -> int:
        """Nanoseconds for a frame."""
        options = _Options(sz=ctypes.sizeof(_Options), data_in=ctypes.cast(
            data, ctypes.c_void_p), data_size_in=len(data))
        self._check(self._api.bpf_prog_test_run_opts(
            self._program, ctypes.byref(options)))
        if options.retval != LEFT_ALONE:
            raise RuntimeError(f'the program returned {options.retval}')
        return options.duration

    def close(self) -> None:
        self._api.bpf_object__close(self._object)
