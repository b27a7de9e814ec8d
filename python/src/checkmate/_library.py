# SPDX-License-Identifier: Apache-2.0
"""The C library: its path, its structures, the signatures of its functions.

The structures repeat include/checkmate/*.h; tests/test_abi.py compares them with what a C compiler says.
"""

from __future__ import annotations

import ctypes as c
import importlib.metadata
import os
import pathlib
from typing import Any

int32, int64 = c.c_int32, c.c_int64


class CError(c.Structure):
    _fields_ = [("code", c.c_int), ("line", int64), ("byte", int64), ("file", c.c_char * 256), ("message", c.c_char * 4096)]


class CTensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("bytes", int64), ("alias_of", int32), ("is_view", c.c_bool)]


class COp(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("kind", c.c_int),
        ("cost", int64),
        ("workspace_bytes", int64),
        ("run_once", c.c_bool),
        ("n_inputs", int32),
        ("n_outputs", int32),
        ("n_inplace", int32),
        ("inputs", c.POINTER(int32)),
        ("outputs", c.POINTER(int32)),
        ("inplace", c.POINTER(int32 * 2)),
        ("module", c.c_char_p),
        ("source", c.c_char_p),
        ("load_bytes", int64),
    ]


class CSecondMemory(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("bytes", int64),
        ("out_bytes_per_second", int64),
        ("in_bytes_per_second", int64),
        ("latency_ns", int64),
    ]


class CStep(c.Structure):
    _fields_ = [("kind", c.c_int), ("index", int32), ("n_inplace", int32), ("inplace", c.POINTER(int32 * 2))]


class CScheduleInfo(c.Structure):
    _fields_ = [
        ("graph", c.c_char * 128),
        ("strategy", c.c_char * 64),
        ("budget_bytes", int64),
        ("cost", int64),
        ("baseline_cost", int64),
        ("peak_bytes", int64),
        ("bound_cost", c.c_double),
        ("bound_covers", c.c_int),
        ("optimal", c.c_bool),
        ("seconds", c.c_double),
    ]


class CSimulation(c.Structure):
    _fields_ = [("cost", int64), ("peak_bytes", int64), ("peak_step", int64), ("end_bytes", int64), ("second_peak_bytes", int64)]


class CVerdict(c.Structure):
    _fields_ = [("ok", c.c_bool), ("cost", int64), ("peak_bytes", int64), ("second_peak_bytes", int64), ("why", c.c_char * 512)]


class CProgress(c.Structure):
    _fields_ = [
        ("seconds", c.c_double),
        ("incumbent_cost", int64),
        ("bound_cost", c.c_double),
        ("gap", c.c_double),
        ("source", c.c_char_p),
    ]


StopFn = c.CFUNCTYPE(c.c_bool, c.c_void_p)
LogFn = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)
ProgressFn = c.CFUNCTYPE(None, c.POINTER(CProgress), c.c_void_p)


class CSolveOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("budget_bytes", int64),
        ("strategy", c.c_char_p),
        ("time_limit_seconds", c.c_double),
        ("gap", c.c_double),
        ("cost_limit", int64),
        ("threads", c.c_int),
        ("seed", c.c_uint64),
        ("iteration_limit", int64),
        ("formulation", c.c_int),
        ("stop", StopFn),
        ("log", LogFn),
        ("progress", ProgressFn),
        ("user", c.c_void_p),
        ("reorder", c.c_bool),
        ("start", c.c_void_p),
        ("without", c.c_char_p),
    ]


class CComponentUse(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("calls", int64),
        ("seconds", c.c_double),
        ("schedules", int64),
        ("bounds", int64),
        ("cost_gained", c.c_double),
        ("bound_gained", c.c_double),
    ]


class CSolveResult(c.Structure):
    _fields_ = [
        ("status", c.c_int),
        ("schedule", c.c_void_p),
        ("cost", int64),
        ("peak_bytes", int64),
        ("budget_bytes", int64),
        ("baseline_cost", int64),
        ("baseline_peak_bytes", int64),
        ("floor_bytes", int64),
        ("least_peak_bytes", int64),
        ("bound_cost", c.c_double),
        ("bound_covers", c.c_int),
        ("gap", c.c_double),
        ("seconds", c.c_double),
        ("strategy", c.c_char * 64),
        ("found_by", c.c_char_p),
        ("proven_by", c.c_char_p),
        ("n_components", int32),
        ("components", CComponentUse * 32),
    ]


class CMinBudgetResult(c.Structure):
    _fields_ = [
        ("status", c.c_int),
        ("budget_bytes", int64),
        ("lower_bound_bytes", int64),
        ("bound_covers", c.c_int),
        ("floor_bytes", int64),
        ("schedule", c.c_void_p),
        ("seconds", c.c_double),
    ]


MinBudgetFn = c.CFUNCTYPE(None, c.POINTER(CMinBudgetResult), c.c_void_p)


class CWay(c.Structure):
    _fields_ = [("name", c.c_char_p), ("note", c.c_char_p), ("peak_bytes", int64), ("cost", int64)]


class CRecipe(c.Structure):
    _fields_ = [("title", c.c_char_p), ("code", c.c_char_p), ("note", c.c_char_p)]


class CWords(c.Structure):
    _fields_ = [
        ("graph_file", c.c_char_p),
        ("schedule_file", c.c_char_p),
        ("chosen", c.c_char_p),
        ("n_ways", int32),
        ("n_recipes", int32),
        ("ways", c.POINTER(CWay)),
        ("recipes", c.POINTER(CRecipe)),
    ]


class CDevice(c.Structure):
    _fields_ = [
        ("name", c.c_char * 32),
        ("what", c.c_char * 96),
        ("source", c.c_char * 192),
        ("macs_per_s", c.c_double),
        ("matrix_macs_per_s", c.c_double),
        ("bytes_per_s", c.c_double),
        ("launch_ns", c.c_double),
        ("efficiency", c.c_double * 4),
    ]


class CDeviceProduct(c.Structure):
    _fields_ = [
        ("memory_bytes", int64),
        ("float16_macs_per_s", c.c_double),
        ("bfloat16_macs_per_s", c.c_double),
        ("half_efficiency", c.c_double),
        ("flash_attention", c.c_bool),
        ("what", c.c_char * 96),
        ("source", c.c_char * 192),
    ]


class CDeviceLink(c.Structure):
    _fields_ = [
        ("name", c.c_char * 32),
        ("what", c.c_char * 96),
        ("source", c.c_char * 192),
        ("out_bytes_per_second", int64),
        ("in_bytes_per_second", int64),
        ("latency_ns", int64),
    ]


class CDeviceKernels(c.Structure):
    _fields_ = [("arithmetic", c.c_int), ("precision", c.c_int), ("macs", c.c_double), ("bytes", c.c_double), ("launches", c.c_double)]


#: C name of each structure, its header and its ctypes class. Sizes are compared with the library's when it is loaded, all else by the ABI test.
STRUCTURES: dict[str, tuple[str, type[c.Structure]]] = {
    "ckm_error": ("base.h", CError),
    "ckm_dataflow_tensor": ("dataflow.h", CTensor),
    "ckm_dataflow_op": ("dataflow.h", COp),
    "ckm_second_memory": ("dataflow.h", CSecondMemory),
    "ckm_step": ("schedule.h", CStep),
    "ckm_schedule_info": ("schedule.h", CScheduleInfo),
    "ckm_simulation": ("schedule.h", CSimulation),
    "ckm_verdict": ("schedule.h", CVerdict),
    "ckm_progress": ("solve.h", CProgress),
    "ckm_solve_options": ("solve.h", CSolveOptions),
    "ckm_solve_result": ("solve.h", CSolveResult),
    "ckm_min_budget_result": ("min_budget.h", CMinBudgetResult),
    "ckm_emit_way": ("emit.h", CWay),
    "ckm_emit_recipe": ("emit.h", CRecipe),
    "ckm_emit_words": ("emit.h", CWords),
    "ckm_device": ("cost.h", CDevice),
    "ckm_device_product": ("cost.h", CDeviceProduct),
    "ckm_device_link": ("cost.h", CDeviceLink),
    "ckm_device_kernels": ("cost.h", CDeviceKernels),
}

_handle, _err = c.c_void_p, c.POINTER(CError)
_out = c.POINTER(c.c_void_p)

#: name: (result type, argument types)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "ckm_version": (c.c_char_p, []),
    "ckm_struct_size": (c.c_size_t, [c.c_char_p]),
    "ckm_dataflow_create": (c.c_int, [c.c_char_p, c.c_int, int64, _out, _err]),
    "ckm_dataflow_free": (None, [_handle]),
    "ckm_dataflow_add_tensor": (c.c_int, [_handle, c.POINTER(CTensor), c.POINTER(int32), _err]),
    "ckm_dataflow_add_op": (c.c_int, [_handle, c.POINTER(COp), c.POINTER(int32), _err]),
    "ckm_dataflow_add_result": (c.c_int, [_handle, int32, _err]),
    "ckm_dataflow_set_second_memory": (c.c_int, [_handle, c.POINTER(CSecondMemory), _err]),
    "ckm_dataflow_get_second_memory": (c.c_bool, [_handle, c.POINTER(CSecondMemory)]),
    "ckm_dataflow_finish": (c.c_int, [_handle, _err]),
    "ckm_dataflow_name": (c.c_char_p, [_handle]),
    "ckm_dataflow_cost_unit": (c.c_int, [_handle]),
    "ckm_dataflow_fixed_bytes": (int64, [_handle]),
    "ckm_dataflow_op_count": (int32, [_handle]),
    "ckm_dataflow_tensor_count": (int32, [_handle]),
    "ckm_dataflow_result_count": (int32, [_handle]),
    "ckm_dataflow_get_op": (COp, [_handle, int32]),
    "ckm_dataflow_get_tensor": (CTensor, [_handle, int32]),
    "ckm_dataflow_get_result": (int32, [_handle, int32]),
    "ckm_dataflow_producer": (int32, [_handle, int32]),
    "ckm_dataflow_standing_bytes": (int64, [_handle]),
    "ckm_dataflow_total_cost": (int64, [_handle]),
    "ckm_min_budget_floor": (c.c_int, [_handle, c.POINTER(int64), _err]),
    "ckm_dataflow_read": (c.c_int, [c.c_char_p, _out, _err]),
    "ckm_dataflow_parse": (c.c_int, [c.c_char_p, c.c_size_t, c.c_char_p, _out, _err]),
    "ckm_dataflow_write": (c.c_int, [_handle, c.c_char_p, _err]),
    "ckm_schedule_create": (c.c_int, [_out, _err]),
    "ckm_schedule_free": (None, [_handle]),
    "ckm_schedule_append": (c.c_int, [_handle, c.POINTER(CStep), _err]),
    "ckm_schedule_step_count": (int64, [_handle]),
    "ckm_schedule_set_info": (None, [_handle, c.POINTER(CScheduleInfo)]),
    "ckm_schedule_get_step": (CStep, [_handle, int64]),
    "ckm_schedule_get_info": (c.POINTER(CScheduleInfo), [_handle]),
    "ckm_schedule_baseline": (c.c_int, [_handle, _out, _err]),
    "ckm_schedule_simulate": (c.c_int, [_handle, _handle, c.POINTER(int64), c.POINTER(CSimulation), _err]),
    "ckm_schedule_verify": (c.c_int, [_handle, _handle, int64, c.POINTER(CVerdict), _err]),
    "ckm_schedule_read": (c.c_int, [c.c_char_p, _out, _err]),
    "ckm_schedule_parse": (c.c_int, [c.c_char_p, c.c_size_t, c.c_char_p, _out, _err]),
    "ckm_schedule_write": (c.c_int, [_handle, c.c_char_p, _err]),
    "ckm_file_replace": (c.c_int, [c.c_char_p, c.c_char_p, c.c_size_t, _err]),
    "ckm_emit_facts_create": (c.c_int, [_handle, _handle, _out, _err]),
    "ckm_emit_facts_free": (None, [_handle]),
    "ckm_emit_page_with": (c.c_int, [_handle, c.POINTER(CWords), c.c_char_p, _err]),
    "ckm_emit_figure": (c.c_int, [_handle, c.c_char_p, c.c_char_p, _err]),
    "ckm_solve": (c.c_int, [_handle, c.POINTER(CSolveOptions), c.POINTER(CSolveResult), _err]),
    "ckm_solve_frontier": (c.c_int, [_handle, c.POINTER(CSolveOptions), c.POINTER(int64), int32, c.POINTER(CSolveResult), _err]),
    "ckm_solve_result_dispose": (None, [c.POINTER(CSolveResult)]),
    "ckm_min_budget": (c.c_int, [_handle, c.POINTER(CSolveOptions), MinBudgetFn, c.POINTER(CMinBudgetResult), _err]),
    "ckm_min_budget_result_dispose": (None, [c.POINTER(CMinBudgetResult)]),
    "ckm_device_count": (int32, []),
    "ckm_device_at": (c.POINTER(CDevice), [int32]),
    "ckm_device_find": (c.POINTER(CDevice), [c.c_char_p]),
    "ckm_device_product_find": (c.POINTER(CDeviceProduct), [c.c_char_p]),
    "ckm_device_link_find": (c.POINTER(CDeviceLink), [c.c_char_p]),
    "ckm_device_time": (c.c_int, [c.POINTER(CDevice), c.POINTER(CDeviceProduct), c.POINTER(CDeviceKernels), c.POINTER(c.c_double), _err]),
    "ckm_solve_strategy_count": (int32, []),
    "ckm_solve_strategy_name": (c.c_char_p, [int32]),
    "ckm_solve_strategy_summary": (c.c_char_p, [int32]),
}


def _load() -> c.CDLL:
    """CHECKMATE_LIBRARY names the library outright; otherwise it is the one next to this file."""
    override = os.environ.get("CHECKMATE_LIBRARY")
    candidates = [pathlib.Path(override)] if override else sorted(pathlib.Path(__file__).parent.glob("libcheckmate.so*"))
    if not candidates:
        raise ImportError(
            "checkmate: libcheckmate.so is missing from the package; install it with `pip install ./python` from a "
            "checkout, or set CHECKMATE_LIBRARY to the library's path"
        )
    try:
        library = c.CDLL(str(candidates[0]))
    except OSError as error:
        # The file exists, but a library that it links does not: wheels include theirs.
        hint = "; in a checkout, `sh scripts/setup.sh build` installs what it links" if candidates[0].exists() and "cannot open" in str(error) else ""
        raise ImportError(f"checkmate: {candidates[0]} cannot be loaded: {error}{hint}") from error
    for name, (result, arguments) in _SIGNATURES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"checkmate: {candidates[0]} is of another version: it has no {name}") from None
        function.restype, function.argtypes = result, arguments
    for name, (_, structure) in STRUCTURES.items():
        size = library.ckm_struct_size(name.encode())
        if size != c.sizeof(structure):
            raise ImportError(
                f"checkmate: {candidates[0]} is of another version, {library.ckm_version().decode()}; this package is {_version()}: {name} has "
                f"{size} bytes there and {c.sizeof(structure)} here. Take the library that was built with this package, or unset CHECKMATE_LIBRARY"
            )
    return library


def _version() -> str:
    """Of this package, which is said where it is installed."""
    here = pathlib.Path(__file__).parent
    for found in importlib.metadata.distributions(name="checkmate"):
        if pathlib.Path(str(found.locate_file("checkmate"))).resolve() == here.resolve():
            return found.version
    return f"that of {here}, which is not installed"


lib = _load()
