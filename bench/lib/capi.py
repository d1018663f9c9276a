"""capi.py -- Tenon's C interface for the measuring scripts, over ctypes: compile or load, bind, run.

Buffers are 64-byte aligned numpy arrays, so that runs copy nothing.  LIBTENON is the library (build/libtenon.so).
"""
import ctypes as C, os
import numpy as np

DTYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
          11: "float64", 12: "uint32", 13: "uint64"}
CODES = {v: k for k, v in DTYPES.items()}
RANK = 16


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("message", C.c_char * 16384)]


class Tensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("dtype", C.c_int), ("rank", C.c_int32), ("shape", C.c_int64 * RANK),
                ("bytes", C.c_int64), ("owner", C.c_void_p), ("memory", C.c_int), ("device", C.c_int32)]


class Info(C.Structure):
    _fields_ = [("name", C.c_char_p), ("type", C.c_char_p), ("kind", C.c_int), ("dtype", C.c_int), ("rank", C.c_int32),
                ("shape", C.c_int64 * RANK), ("symbol", C.c_char_p * RANK)]


class Options(C.Structure):
    _fields_ = [("struct_size", C.c_size_t), ("target", C.c_char_p), ("opt_level", C.c_int32), ("math", C.c_int),
                ("threads", C.c_int32), ("dims", C.c_void_p), ("ndims", C.c_size_t), ("progress", C.c_void_p),
                ("user", C.c_void_p), ("no_cache", C.c_int32), ("precision", C.c_int), ("batch_invariant", C.c_int32),
                ("device", C.c_char_p), ("last_use", C.c_int32), ("named", C.c_void_p), ("nnamed", C.c_size_t), ("print", C.c_void_p)]


class Named(C.Structure):
    _fields_ = [("name", C.c_char_p), ("value", C.c_char_p)]


class SessionOptions(C.Structure):
    _fields_ = [("struct_size", C.c_size_t), ("threads", C.c_int32), ("profile", C.c_int32), ("memory_limit", C.c_int64),
                ("states", C.c_void_p), ("nstates", C.c_size_t)]


lib = C.CDLL(os.environ.get("LIBTENON", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "libtenon.so")))
can_load = hasattr(lib, "tenon_program_load")
lib.tenon_session_run_bound.argtypes = [C.c_void_p, C.c_void_p, C.POINTER(Error)]
lib.tenon_program_input_count.restype = lib.tenon_program_output_count.restype = C.c_size_t


def call(name, *args):
    """Calls a function whose last parameter is the error, and raises what it says."""
    error = Error()
    if getattr(lib, name)(*args, C.byref(error)):
        raise RuntimeError(f"{name}: {error.message.decode()}")


def aligned(array):
    """The same elements at a multiple of 64 bytes."""
    array = np.asarray(array, order="C")
    room = np.empty(array.nbytes + 64, np.uint8)
    skip = -room.ctypes.data % 64
    out = room[skip:skip + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def view(array):
    shape = (C.c_int64 * RANK)(*array.shape)
    return Tensor(array.ctypes.data, CODES[array.dtype.name], array.ndim, shape, array.nbytes, None, 0, 0)


class Program:
    """A compiled model: of a .tenon file, loaded; of any other, compiled for the target `cpu`, with full code from the first run on.
    precision: f32 or bf16."""

    def __init__(self, path, threads=0, precision="f32"):
        self.p, model = C.c_void_p(), C.c_void_p()
        if path.endswith(".tenon"):
            return call("tenon_program_load", path.encode(), None, C.byref(self.p))
        call("tenon_model_open", path.encode(), C.byref(model))
        tier = Named(b"tier", b"full")
        options = Options(struct_size=C.sizeof(Options), target=b"cpu", threads=threads, precision=["f32", "bf16"].index(precision),
                          named=C.cast(C.pointer(tier), C.c_void_p), nnamed=1)
        call("tenon_compile", model, C.byref(options), C.byref(self.p))
        lib.tenon_model_close(model)

    def names(self, which):
        info, count = Info(), getattr(lib, f"tenon_program_{which}_count")(self.p)
        out = []
        for i in range(count):
            getattr(lib, f"tenon_program_{which}")(self.p, C.c_size_t(i), C.byref(info))
            out.append(info.name.decode())
        return out


class Session:
    def __init__(self, program, threads):
        self.program, self.s = program, C.c_void_p()
        options = SessionOptions(struct_size=C.sizeof(SessionOptions), threads=threads)
        call("tenon_session_create", program.p, C.byref(options), C.byref(self.s))

    def bind(self, feed):
        self.inputs = [aligned(feed[name]) for name in self.program.names("input")]
        for i, array in enumerate(self.inputs):
            call("tenon_session_bind_input", self.s, C.c_size_t(i), C.byref(view(array)))

    def run(self, error=Error(), bound=lib.tenon_session_run_bound):
        """Little of Python's own time: small models run in microseconds."""
        if bound(self.s, None, error): raise RuntimeError(error.message.decode())

    def outputs(self):
        """Name to array, copied, of the last run."""
        out = {}
        for i, name in enumerate(self.program.names("output")):
            t = Tensor()
            call("tenon_session_output", self.s, C.c_size_t(i), C.byref(t))
            shape, dtype = list(t.shape[:t.rank]), np.dtype(DTYPES[t.dtype])
            count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            out[name] = np.frombuffer(C.string_at(t.data, count), dtype).reshape(shape)
        return out

    def close(self):
        lib.tenon_session_release(self.s)
