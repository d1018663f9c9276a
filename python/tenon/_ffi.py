"""The C interface of Tenon over ctypes: structures and prototypes of include/tenon/tenon.h, and where the library
is found.

Everything here mirrors the header by name; tests/python/ffi_test.py compares sizes, offsets and numbers with what a
C compiler says.  Nothing else in the package knows ctypes' side of a structure.
"""

from __future__ import annotations

import atexit
import ctypes as C
import ctypes.util
import os
import shutil
from typing import List, Optional

MAX_RANK = 16
ALIGNMENT = 64
ARTIFACT_MAGIC = b"\x89TENON\n\x1a"  # what a compiled model begins with
ERROR_CAPACITY = 16384

OK, EINVAL, EFORMAT, EUNSUPPORTED, EIO, ENOMEM, EDEVICE, EINTERNAL, ECANCELLED = range(9)
KIND_TENSOR, KIND_SEQUENCE, KIND_OPTIONAL, KIND_MAP = range(1, 5)
MATH_DEFAULT, MATH_EXACT, MATH_FAST = range(3)
PRECISION_DEFAULT, PRECISION_BF16, PRECISION_TF32, PRECISION_F16 = range(4)
STEP_KERNEL, STEP_HOST, STEP_VIEW, STEP_COPY = range(4)
MEMORY_HOST, MEMORY_CUDA = 0, 2
LLM_RUNNING, LLM_STOP, LLM_LENGTH, LLM_CANCELLED, LLM_NO_TOKEN = range(5)
LLM_TOKEN, LLM_PROMPT, LLM_END, LLM_VECTOR = range(1, 5)
LLM_GENERATE, LLM_EMBED, LLM_RANK = range(3)
LLM_POOL_DEFAULT, LLM_POOL_MEAN, LLM_POOL_FIRST, LLM_POOL_LAST = range(4)
LLM_GENERATE, LLM_EMBED, LLM_RANK = range(3)
LLM_ALLOW_SET, LLM_ALLOW_ALL, LLM_ALLOW_FAILED = range(3)
DTYPES = (
    "NONE",
    "F32",
    "U8",
    "I8",
    "U16",
    "I16",
    "I32",
    "I64",
    "STRING",
    "BOOL",
    "F16",
    "F64",
    "U32",
    "U64",
    "C64",
    "C128",
    "BF16",
    "F8E4M3",
    "F8E4M3Z",
    "F8E5M2",
    "F8E5M2Z",
    "U4",
    "I4",
    "F4E2M1",
    "F8E8M0",
    "U2",
    "I2",
)


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("message", C.c_char * ERROR_CAPACITY)]


class String(C.Structure):
    _fields_ = [("data", C.c_void_p), ("size", C.c_int64)]


class Tensor(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("dtype", C.c_int),
        ("rank", C.c_int32),
        ("shape", C.c_int64 * MAX_RANK),
        ("bytes", C.c_int64),
        ("owner", C.c_void_p),
        ("memory", C.c_int),
        ("device", C.c_int32),
    ]


class NamedTensor(C.Structure):
    _fields_ = [("name", C.c_char_p), ("tensor", Tensor)]


class OpenOptions(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("ops", C.c_void_p),
        ("nops", C.c_size_t),
        ("threads", C.c_int32),
        ("memory_limit", C.c_int64),
        ("inputs", C.POINTER(C.c_char_p)),
        ("ninputs", C.c_size_t),
        ("types", C.POINTER(C.c_char_p)),
        ("ntypes", C.c_size_t),
        ("weights", C.c_char_p),
        ("tensors", C.POINTER(NamedTensor)),
        ("ntensors", C.c_size_t),
        ("signature", C.c_char_p),
    ]


class ValueInfo(C.Structure):
    _fields_ = [
        ("name", C.c_char_p),
        ("type", C.c_char_p),
        ("kind", C.c_int),
        ("dtype", C.c_int),
        ("rank", C.c_int32),
        ("shape", C.c_int64 * MAX_RANK),
        ("symbol", C.c_char_p * MAX_RANK),
    ]


class Unsupported(C.Structure):
    _fields_ = [("op", C.c_char_p), ("why", C.c_char_p), ("node", C.c_char_p), ("count", C.c_size_t)]


class RunOptions(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("seed", C.c_uint64),
        ("memory_limit", C.c_int64),
        ("max_iterations", C.c_int64),
        ("max_operations", C.c_int64),
        ("stream", C.c_void_p),
        ("wanted", C.c_void_p),
        ("nwanted", C.c_size_t),
    ]


class TargetInfo(C.Structure):
    _fields_ = [("name", C.c_char_p), ("doc", C.c_char_p), ("available", C.c_int32)]


class Dim(C.Structure):
    _fields_ = [("name", C.c_char_p), ("size", C.c_int64)]


class Progress(C.Structure):
    _fields_ = [("stage", C.c_char_p), ("what", C.c_char_p), ("done", C.c_int64), ("total", C.c_int64)]


PROGRESS = C.CFUNCTYPE(C.c_int, C.POINTER(Progress), C.c_void_p)
PRINT = C.CFUNCTYPE(None, C.POINTER(C.c_char), C.c_size_t, C.c_void_p)


class OptionInfo(C.Structure):
    _fields_ = [("name", C.c_char_p), ("kind", C.c_char_p), ("choices", C.c_char_p), ("help", C.c_char_p)]


class NamedOption(C.Structure):
    _fields_ = [("name", C.c_char_p), ("value", C.c_char_p)]


class Options(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("target", C.c_char_p),
        ("opt_level", C.c_int32),
        ("math", C.c_int),
        ("threads", C.c_int32),
        ("dims", C.POINTER(Dim)),
        ("ndims", C.c_size_t),
        ("progress", PROGRESS),
        ("user", C.c_void_p),
        ("no_cache", C.c_int32),
        ("precision", C.c_int),
        ("batch_invariant", C.c_int32),
        ("device", C.c_char_p),
        ("last_use", C.c_int32),
        ("named", C.POINTER(NamedOption)),
        ("nnamed", C.c_size_t),
        ("print", PRINT),
    ]


class ProgramInfo(C.Structure):
    _fields_ = [
        ("target", C.c_char_p),
        ("kernels", C.c_int64),
        ("steps", C.c_int64),
        ("host_steps", C.c_int64),
        ("code_bytes", C.c_int64),
        ("constant_bytes", C.c_int64),
    ]


class LoadOptions(C.Structure):
    _fields_ = [("struct_size", C.c_size_t), ("ops", C.c_void_p), ("nops", C.c_size_t), ("target", C.c_char_p), ("by_name", C.c_int32)]


class StatePair(C.Structure):
    _fields_ = [("input", C.c_char_p), ("output", C.c_char_p)]


class SessionOptions(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("threads", C.c_int32),
        ("profile", C.c_int32),
        ("memory_limit", C.c_int64),
        ("states", C.POINTER(StatePair)),
        ("nstates", C.c_size_t),
    ]


class Step(C.Structure):
    _fields_ = [
        ("name", C.c_char_p),
        ("node", C.c_char_p),
        ("kind", C.c_int),
        ("calls", C.c_int64),
        ("ns", C.c_int64),
        ("more", C.c_int32),
        ("flops", C.c_double),
        ("bytes", C.c_double),
    ]


class LlmOptions(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("target", C.c_char_p),
        ("threads", C.c_int32),
        ("context", C.c_int32),
        ("sequences", C.c_int32),
        ("requests", C.c_int32),
        ("batch", C.c_int32),
        ("pages", C.c_int32),
        ("memory_limit", C.c_int64),
        ("kv_dtype", C.c_int),
        ("exact", C.c_int32),
        ("draft", C.c_int32),
        ("no_prefix_cache", C.c_int32),
        ("step_seconds", C.c_double),
        ("progress", PROGRESS),
        ("user", C.c_void_p),
        ("no_cache", C.c_int32),
        ("embed", C.c_int32),
        ("adapters", C.c_int32),
        ("adapter_rank", C.c_int32),
        ("draft_model", C.c_char_p),
    ]


class LlmBias(C.Structure):
    _fields_ = [("token", C.c_int32), ("bias", C.c_float)]


class LlmPlace(C.Structure):
    _fields_ = [
        ("tokens", C.POINTER(C.c_int32)),
        ("ntokens", C.c_size_t),
        ("nprompt", C.c_size_t),
        ("left", C.c_int32),
    ]


LLM_MASK = C.CFUNCTYPE(C.c_int, C.POINTER(LlmPlace), C.POINTER(C.c_uint32), C.c_void_p)


class LlmToken(C.Structure):
    _fields_ = [("bytes", C.POINTER(C.c_char)), ("size", C.c_size_t), ("special", C.c_int32), ("end", C.c_int32)]


class LlmRequest(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("text", C.c_char_p),
        ("text_size", C.c_size_t),
        ("tokens", C.POINTER(C.c_int32)),
        ("ntokens", C.c_size_t),
        ("parse_special", C.c_int32),
        ("no_special", C.c_int32),
        ("max_tokens", C.c_int32),
        ("temperature", C.c_float),
        ("top_k", C.c_int32),
        ("top_p", C.c_float),
        ("min_p", C.c_float),
        ("typical", C.c_float),
        ("repeat_penalty", C.c_float),
        ("presence_penalty", C.c_float),
        ("frequency_penalty", C.c_float),
        ("seed", C.c_uint64),
        ("bias", C.POINTER(LlmBias)),
        ("nbias", C.c_size_t),
        ("stop", C.POINTER(C.c_char_p)),
        ("nstop", C.c_size_t),
        ("ignore_end", C.c_int32),
        ("logprobs", C.c_int32),
        ("top_logprobs", C.c_int32),
        ("prompt_logprobs", C.c_int32),
        ("no_draft", C.c_int32),
        ("priority", C.c_int32),
        ("client", C.c_uint32),
        ("salt", C.c_uint64),
        ("user", C.c_void_p),
        ("mask", LLM_MASK),
        ("mask_user", C.c_void_p),
        ("adapter", C.c_char_p),
        ("task", C.c_int),
        ("pair", C.c_char_p),
        ("pair_size", C.c_size_t),
        ("pooling", C.c_int),
        ("not_normalised", C.c_int32),
        ("dry", C.c_float),
        ("dry_base", C.c_float),
        ("dry_length", C.c_int32),
        ("xtc_probability", C.c_float),
        ("xtc_threshold", C.c_float),
        ("truncate", C.c_int32),
        ("json_schema", C.c_char_p),
        ("regex", C.c_char_p),
        ("grammar", C.c_char_p),
        ("choices", C.POINTER(C.c_char_p)),
        ("nchoices", C.c_size_t),
        ("shown", C.POINTER(C.c_int32)),
        ("nshown", C.c_size_t),
    ]


class LlmTop(C.Structure):
    _fields_ = [("token", C.c_int32), ("logprob", C.c_float)]


class LlmEvent(C.Structure):
    _fields_ = [
        ("id", C.c_uint64),
        ("user", C.c_void_p),
        ("kind", C.c_int),
        ("finish", C.c_int),
        ("token", C.c_int32),
        ("position", C.c_int32),
        ("text", C.POINTER(C.c_char)),
        ("text_size", C.c_size_t),
        ("logprob", C.c_float),
        ("top", C.POINTER(LlmTop)),
        ("ntop", C.c_size_t),
        ("vector", C.POINTER(C.c_float)),
        ("nvector", C.c_size_t),
    ]


class LlmCounts(C.Structure):
    _fields_ = [
        (name, C.c_int64)
        for name in (
            "steps",
            "rows",
            "prompt_tokens",
            "tokens",
            "cached_tokens",
            "submitted",
            "finished",
            "cancelled",
            "preempted",
            "drafted",
            "accepted",
        )
    ] + [(name, C.c_int32) for name in ("running", "waiting", "pages", "pages_free", "pages_cached")]


class LlmBytes(C.Structure):
    _fields_ = [
        (name, C.c_int64)
        for name in ("weights", "constants", "arena", "cache", "logits", "tables", "requests", "code", "adapters", "draft", "total")
    ]


class LlmInfo(C.Structure):
    _fields_ = [
        ("architecture", C.c_char_p),
        ("tokenizer", C.c_char_p),
        ("vocabulary", C.c_int32),
        ("context", C.c_int32),
        ("sequences", C.c_int32),
        ("layers", C.c_int32),
        ("weight_bytes", C.c_int64),
        ("token_bytes", C.c_int64),
        ("has_chat", C.c_int32),
        ("is_encoder", C.c_int32),
        ("embedding", C.c_int32),
        ("scores", C.c_int32),
    ]


NEXT_SAMPLE = C.CFUNCTYPE(C.c_int, C.POINTER(Tensor), C.c_size_t, C.POINTER(C.c_int64), C.c_void_p)
QUANTIZED, QUANTIZED_SLOWER, QUANTIZED_MISSED = range(3)


class Dataset(C.Structure):
    _fields_ = [("next", NEXT_SAMPLE), ("user", C.c_void_p)]


class QuantizeOptions(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("to", C.c_char_p),
        ("budget", C.c_char_p),
        ("metric", C.c_char_p),
        ("method", C.c_char_p),
        ("block", C.c_int64),
        ("keep", C.POINTER(C.c_char_p)),
        ("nkeep", C.c_size_t),
        ("target", C.c_char_p),
        ("threads", C.c_int32),
        ("labels", C.c_int32),
        ("seed", C.c_uint64),
        ("allow_slower", C.c_int32),
        ("no_correction", C.c_int32),
        ("progress", PROGRESS),
        ("user", C.c_void_p),
        ("migrate", C.c_char_p),
    ]


class PruneOptions(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("pattern", C.c_char_p),
        ("zeros", C.c_int32),
        ("labels", C.c_int32),
        ("budget", C.c_char_p),
        ("metric", C.c_char_p),
        ("keep", C.POINTER(C.c_char_p)),
        ("nkeep", C.c_size_t),
        ("target", C.c_char_p),
        ("threads", C.c_int32),
        ("allow_slower", C.c_int32),
        ("seed", C.c_uint64),
        ("progress", PROGRESS),
        ("user", C.c_void_p),
    ]


class TuneOptions(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("seconds", C.c_double),
        ("database", C.c_char_p),
        ("inputs", C.c_char_p),
        ("threads", C.c_int32),
        ("reorder", C.c_int32),
        ("fresh", C.c_int32),
        ("seed", C.c_uint64),
        ("objective", C.c_char_p),
    ]


class TuneInfo(C.Structure):
    _fields_ = [
        ("gain", C.c_double),
        ("kernels", C.c_int64),
        ("tasks", C.c_int64),
        ("trials", C.c_int64),
    ]


class QuantizedInfo(C.Structure):
    _fields_ = [
        ("verdict", C.c_int),
        ("contractions", C.c_int64),
        ("quantized", C.c_int64),
        ("samples", C.c_int64),
        ("bytes", C.c_int64 * 2),
        ("ns", C.c_double * 2),
        ("metric", C.c_char_p),
        ("value", C.c_double),
        ("bound", C.c_double),
        ("confidence", C.c_double),
        ("certificate", C.c_char_p),
        ("report", C.c_char_p),
        ("model", C.c_void_p),
        ("model_size", C.c_size_t),
    ]


# C's name of each structure, for the test that compares them.
STRUCTS = {
    "tenon_error": Error,
    "tenon_string": String,
    "tenon_tensor": Tensor,
    "tenon_named_tensor": NamedTensor,
    "tenon_open_options": OpenOptions,
    "tenon_value_info": ValueInfo,
    "tenon_unsupported": Unsupported,
    "tenon_run_options": RunOptions,
    "tenon_target_info": TargetInfo,
    "tenon_dim": Dim,
    "tenon_progress": Progress,
    "tenon_option_info": OptionInfo,
    "tenon_named_option": NamedOption,
    "tenon_options": Options,
    "tenon_program_info": ProgramInfo,
    "tenon_dataset": Dataset,
    "tenon_quantize_options": QuantizeOptions,
    "tenon_prune_options": PruneOptions,
    "tenon_quantized_info": QuantizedInfo,
    "tenon_tune_options": TuneOptions,
    "tenon_tune_info": TuneInfo,
    "tenon_load_options": LoadOptions,
    "tenon_state_pair": StatePair,
    "tenon_session_options": SessionOptions,
    "tenon_step": Step,
    "tenon_llm_options": LlmOptions,
    "tenon_llm_bias": LlmBias,
    "tenon_llm_place": LlmPlace,
    "tenon_llm_token": LlmToken,
    "tenon_llm_request": LlmRequest,
    "tenon_llm_top": LlmTop,
    "tenon_llm_event": LlmEvent,
    "tenon_llm_counts": LlmCounts,
    "tenon_llm_bytes": LlmBytes,
    "tenon_llm_info": LlmInfo,
}

_P, _N, _I, _S = C.c_void_p, C.c_size_t, C.c_int, C.c_char_p
# name: (result, parameters).  Handles, structures and errors go by address: an int, or what byref gives.
PROTOTYPES = {
    "tenon_version": (_S, []),
    "tenon_notice": (C.c_int32, [_S, _N]),
    "tenon_status_name": (_S, [_I]),
    "tenon_dtype_name": (_S, [_I]),
    "tenon_tensor_size": (C.c_int64, [_I, C.c_int32, _P]),
    "tenon_tensor_release": (None, [_P]),
    "tenon_model_open_with": (_I, [_S, _P, _P, _P]),
    "tenon_model_open_memory": (_I, [_P, _N, _P, _P, _P]),
    "tenon_model_close": (None, [_P]),
    "tenon_model_input_count": (_N, [_P]),
    "tenon_model_output_count": (_N, [_P]),
    "tenon_model_input": (_I, [_P, _N, _P]),
    "tenon_model_output": (_I, [_P, _N, _P]),
    "tenon_model_unsupported_count": (_N, [_P]),
    "tenon_model_unsupported": (_I, [_P, _N, _P]),
    "tenon_op_known": (C.c_int32, [_S, _S]),
    "tenon_run": (_I, [_P, _P, _N, _P, _N, _P, _P]),
    "tenon_target_count": (_N, []),
    "tenon_target": (_I, [_N, _P]),
    "tenon_option_count": (_N, []),
    "tenon_option": (_I, [_N, _P]),
    "tenon_program_option_count": (_N, [_P]),
    "tenon_program_option": (_S, [_P, _N]),
    "tenon_program_warning_count": (_N, [_P]),
    "tenon_program_warning": (_S, [_P, _N]),
    "tenon_compile": (_I, [_P, _P, _P, _P]),
    "tenon_quantize": (_I, [_P, _P, _P, _P, _P]),
    "tenon_prune": (_I, [_P, _P, _P, _P, _P]),
    "tenon_quantized_describe": (None, [_P, _P]),
    "tenon_quantized_save": (_I, [_P, _S, _P]),
    "tenon_quantized_free": (None, [_P]),
    "tenon_tune": (_I, [_S, _S, _P, _P, _P]),
    "tenon_program_retain": (_P, [_P]),
    "tenon_program_release": (None, [_P]),
    "tenon_program_input_count": (_N, [_P]),
    "tenon_program_output_count": (_N, [_P]),
    "tenon_program_input": (_I, [_P, _N, _P]),
    "tenon_program_output": (_I, [_P, _N, _P]),
    "tenon_program_describe": (None, [_P, _P]),
    "tenon_program_save": (_I, [_P, _S, _P]),
    "tenon_programs_save": (_I, [_P, _N, _S, _P]),
    "tenon_program_load": (_I, [_S, _P, _P, _P]),
    "tenon_program_load_memory": (_I, [_P, _N, _P, _P, _P]),
    "tenon_session_create": (_I, [_P, _P, _P, _P]),
    "tenon_session_release": (None, [_P]),
    "tenon_session_threads": (C.c_int32, [_P]),
    "tenon_session_device_bytes": (C.c_int64, [_P]),
    "tenon_session_run": (_I, [_P, _P, _N, _P, _N, _P, _P]),
    "tenon_run_values": (_I, [_P, _P, _N, _P, _N, _P, _P]),
    "tenon_session_run_values": (_I, [_P, _P, _N, _P, _N, _P, _P]),
    "tenon_value_tensor": (_I, [_P, _P, _P]),
    "tenon_value_sequence": (_I, [_I, _P, _N, _P, _P]),
    "tenon_value_optional": (_I, [_I, _P, _P, _P]),
    "tenon_value_map": (_I, [_P, _P, _P, _P]),
    "tenon_value_release": (None, [_P]),
    "tenon_value_kind": (_I, [_P]),
    "tenon_value_count": (_N, [_P]),
    "tenon_value_item": (_P, [_P, _N]),
    "tenon_value_view": (_I, [_P, _P]),
    "tenon_session_wait": (_I, [_P, _P]),
    "tenon_session_state_count": (_N, [_P]),
    "tenon_session_state": (_I, [_P, _N, _P]),
    "tenon_session_state_get": (_I, [_P, _N, _P, _P]),
    "tenon_session_state_set": (_I, [_P, _N, _P, _P]),
    "tenon_session_state_reset": (_I, [_P, _P]),
    "tenon_session_step_count": (_N, [_P]),
    "tenon_session_step": (_I, [_P, _N, _P]),
    "tenon_session_profile_reset": (None, [_P]),
    "tenon_llm_open": (_I, [_S, _P, _P, _P]),
    "tenon_llm_close": (None, [_P]),
    "tenon_llm_submit": (_I, [_P, _P, _P, _P]),
    "tenon_llm_step": (_I, [_P, _P, _P, _P]),
    "tenon_llm_cancel": (_I, [_P, C.c_uint64, _P]),
    "tenon_llm_load_adapter": (_I, [_P, _S, _S, C.c_float, _P]),
    "tenon_llm_drop_adapter": (_I, [_P, _S, _P]),
    "tenon_llm_busy": (C.c_int32, [_P]),
    "tenon_llm_stats": (None, [_P, _P]),
    "tenon_llm_memory": (None, [_P, _P]),
    "tenon_llm_describe": (None, [_P, _P]),
    "tenon_llm_tokenize": (_I, [_P, _S, _N, C.c_int32, C.c_int32, _P, _N, _P, _P]),
    "tenon_llm_detokenize": (_I, [_P, _P, _N, C.c_int32, _P, _N, _P, _P]),
    "tenon_llm_piece": (_I, [_P, C.c_int32, _P, _P]),
    "tenon_llm_ends": (_N, [_P, _P, _N]),
    "tenon_llm_template": (_S, [_P]),
    "tenon_llm_chat": (_I, [_P, _S, _S, _S, _P, _N, _P, _P]),
}

HERE = os.path.dirname(os.path.abspath(__file__))


def candidates() -> List[str]:
    """Where the library is looked for, in order."""
    named = os.environ.get("TENON_LIBRARY")
    if named:
        return [named]
    checkout = os.path.dirname(os.path.dirname(HERE))
    found = [os.path.join(HERE, "lib", "libtenon.so"), os.path.join(checkout, "build", "libtenon.so")]
    system = ctypes.util.find_library("tenon")
    return [p for p in found if os.path.exists(p)] + ([system] if system else [])


def _load() -> C.CDLL:
    failures = []
    for path in candidates():
        try:
            found = C.CDLL(path)
        except OSError as error:
            failures.append(f"{path}: {error}")
            continue
        for name, (result, parameters) in PROTOTYPES.items():
            try:
                function = getattr(found, name)
            except AttributeError:
                raise ImportError(f"{path} has no {name}: it is of another version than this package") from None
            function.restype, function.argtypes = result, parameters
        return found
    said = "".join(f"\n  {f}" for f in failures)
    raise ImportError(
        "libtenon.so was not found: install the wheel, build it in a checkout (make), or say where it is with "
        f"TENON_LIBRARY{said}"
    )


lib = _load()


def lib_path() -> str:
    """The file of the library that is in use, or its name where the system's loader found it."""
    return lib._name


def program(name: str = "tenon") -> Optional[str]:
    """The path of a program that belongs to the library, looked for where the library itself looks for
    tenon-codegen."""
    base = os.path.dirname(lib_path())
    if base:
        for folder in ("", "../libexec/tenon", "../bin"):
            path = os.path.normpath(os.path.join(base, folder, name))
            if os.access(path, os.X_OK) and os.path.isfile(path):
                return path
    return shutil.which(name)


class _Life:
    """Whether handles may still be freed: not while the interpreter ends, when threads may be inside a run."""

    ending = False


def _end() -> None:
    _Life.ending = True


atexit.register(_end)


def free(release_name: str, handle: int, process: int) -> None:
    """Gives a handle back, unless the process is about to end and does it anyway, or has it from its parent: a
    forked child has none of the threads that a session would wait for."""
    if handle and not _Life.ending and os.getpid() == process:
        getattr(lib, release_name)(handle)


def encode(text: "os.PathLike[str] | str | bytes") -> bytes:
    """A path or name as the library takes it, which ends at its first null byte."""
    found = os.fsencode(text)
    if b"\0" in found:
        raise ValueError(f"embedded null byte in {text!r}")
    return found
