"""What ONNX Runtime's Python layer has (`onnxruntime.capi.onnxruntime_inference_collection`), for programs that import from it."""
from __future__ import annotations

from . import ort_state as C  # noqa: F401,N812 -- its name there
from .ort import (AdapterFormat, InferenceSession, IOBinding, ModelCompiler, OrtDevice, OrtDeviceVendorId, OrtValue, Session,  # noqa: F401
                  SparseTensor, check_and_normalize_provider_args, copy_tensors)
from .ort_values import get_ort_device_type, get_vendor_id_for_device_type  # noqa: F401
