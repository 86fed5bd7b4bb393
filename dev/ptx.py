"""Compiles rounds.cu and its headers to PTX by NVRTC. Called by dev/ptx."""

import ctypes
import sys
from pathlib import Path

# Nothing is fused: a product is rounded before it is added, as the engine does it. Compute capability
# 8.0 is the oldest whose doubles are worth a run (Ampere, 2020); later ones read the same text.
OPTIONS = [b"--gpu-architecture=compute_80", b"--fmad=false", b"--std=c++17"]


def compile_kernels(nvrtc, kernels):
    """The PTX, as bytes."""
    headers = sorted(kernels.glob("*.h"))
    names = (ctypes.c_char_p * len(headers))(*[path.name.encode() for path in headers])
    texts = (ctypes.c_char_p * len(headers))(*[path.read_bytes() for path in headers])
    source = (kernels / "rounds.cu").read_bytes()
    program = ctypes.c_void_p()

    def call(name, *arguments):
        status = getattr(nvrtc, name)(*arguments)
        return status if name == "nvrtcCompileProgram" else check(name, status)

    def check(name, status):
        if status != 0:
            raise SystemExit(f"dev/ptx: {name}: error {status}")

    def text(kind):
        size = ctypes.c_size_t()
        call(f"nvrtcGet{kind}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        call(f"nvrtcGet{kind}", program, buffer)
        return buffer.value

    call("nvrtcCreateProgram", ctypes.byref(program), source, b"rounds.cu", len(headers), texts, names)
    options = (ctypes.c_char_p * len(OPTIONS))(*OPTIONS)
    status = call("nvrtcCompileProgram", program, len(OPTIONS), options)
    log = text("ProgramLog").decode().strip()
    if log:
        print(log, file=sys.stderr)
    check("nvrtcCompileProgram", status)
    return text("PTX")


def main():
    kernels, installed = Path(sys.argv[1]), Path(sys.prefix)
    library = next(installed.glob("lib/python*/site-packages/nvidia/*/lib/libnvrtc.so.*"))
    nvrtc = ctypes.CDLL(str(library))
    ptx, committed = compile_kernels(nvrtc, kernels), kernels / "rounds.ptx"
    if "--check" not in sys.argv:
        committed.write_bytes(ptx)
    elif committed.read_bytes() != ptx:
        raise SystemExit(f"dev/ptx: {committed} is not what its kernels come to; run dev/ptx")


main()
