#!/usr/bin/env python3
"""Warpbook's matrix product and convolutions as layers of PyTorch, forwards and backwards.

    pip install ./notebooks/pytorch      (in the repository; it builds the library with cargo)
    python3 -m warpbook_op

`linear` and `conv2d` are `torch.autograd.Function`s that call libwarpbook_op through ctypes, with the pointers of their tensors
and PyTorch's current stream. `Linear` and `Conv2d` are PyTorch's modules with these functions, and `converted` puts them into a
network, where a rung or a kernel of your own can compute the linear layers: converted(model, kernel="mine.cu"). Under torch.autocast they round as PyTorch's layers do; gradients of weights come out in fp32, as the master weights are,
so that nothing widens them. A step can be captured in a CUDA graph.

Run as a program, it checks both layers and any kernels that are named, as in `python3 warpbook_op.py mine.cu` (with --json a JSON object for each check), every gradient against differences along random directions and against PyTorch's in
float64. A layer is linear in each of its arguments, so that central differences have no error but rounding.

training.py times both in whole trainings, its ways torch_amp_fp16_own and torch_amp_fp16_own_graph.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

import warpbook_record as wr

VARIABLE = "WARPBOOK_OP"
NAMES = {"linux": "libwarpbook_op.so", "darwin": "libwarpbook_op.dylib", "win32": "warpbook_op.dll"}
BUILD = "cargo build --release -p warpbook-op"


class Product(ctypes.Structure):
    """This structure has the fields of `CProduct` in crates/warpbook-op/src/arguments.rs."""

    _fields_ = [(name, ctypes.c_uint32) for name in ("m", "n", "k", "lda", "ldb", "ldc")]
    _fields_ += [(name, ctypes.c_int32) for name in ("dtype", "out", "trans_a", "trans_b", "epilogue")]
    _fields_ += [(name, ctypes.c_float) for name in ("alpha", "beta")]
    _fields_ += [("kernel", ctypes.c_uint32)]


class Convolution(ctypes.Structure):
    """This structure has the fields of `CConvolution` in crates/warpbook-op/src/arguments.rs."""

    _fields_ = [
        ("batch", ctypes.c_uint32),
        ("size", ctypes.c_uint32 * 2),
        ("channels", ctypes.c_uint32),
        ("filters", ctypes.c_uint32),
        ("kernel", ctypes.c_uint32 * 2),
        ("stride", ctypes.c_uint32 * 2),
        ("padding", ctypes.c_uint32 * 2),
        ("dtype", ctypes.c_int32),
        ("layout", ctypes.c_int32),
    ]


# The library's numbers of the types.
F32, TF32, F16, BF16 = range(4)
PLAIN, BIAS = 0, 1
CHANNELS_LAST = 0


def library_name() -> str:
    """Returns the library's file name on this system."""
    return NAMES.get(sys.platform, NAMES["linux"])


def library_file() -> Path:
    """Returns the library's path: the one in WARPBOOK_OP, else pip's next to this file, else cargo's in this repository."""
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_file():
            raise wr.Unavailable(f"{VARIABLE} names {named}, which is not a file; build it with `{BUILD}`")
        return Path(named).resolve()
    installed = Path(__file__).resolve().with_name(library_name())
    if installed.is_file():
        return installed
    target = Path(os.environ.get("CARGO_TARGET_DIR") or Path(__file__).resolve().parents[2] / "target")
    path = target / "release" / library_name()
    if not path.is_file():
        raise wr.Unavailable(f"needs {path}; build it with `{BUILD}`, or set {VARIABLE} to its path")
    return path


@lru_cache
def library() -> ctypes.CDLL:
    try:
        lib = ctypes.CDLL(str(library_file()))
    except OSError as e:
        raise wr.Unavailable(f"cannot load the library: {e}") from e
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    lib.warpbook_error.restype = ctypes.c_char_p
    lib.warpbook_open.restype, lib.warpbook_open.argtypes = pointer, [ctypes.c_uint32]
    lib.warpbook_kernel.restype, lib.warpbook_kernel.argtypes = ctypes.c_uint32, [pointer, ctypes.c_char_p, number]
    for name, arguments in {
        "warpbook_gemm": [pointer] * 8,
        "warpbook_conv2d_forward": [*[pointer] * 6, number, pointer],
        "warpbook_conv2d_input_gradient": [pointer] * 7,
        "warpbook_conv2d_weight_gradient": [pointer] * 7,
    }.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = number, arguments
    return lib


def last_error() -> str:
    return (library().warpbook_error() or b"").decode("utf-8", "replace")


_sessions: dict[int, int] = {}
_opening = threading.Lock()


def session(index: int) -> int:
    """Returns the library's session on a device; it lasts as long as the process."""
    with _opening:
        if index not in _sessions:
            opened = library().warpbook_open(index)
            if not opened:
                raise wr.Unavailable(last_error())
            _sessions[index] = opened
        return _sessions[index]


@lru_cache
def kernel_number(index: int, kernel: str, number: int) -> int:
    """Returns the library's number of a kernel on a device. The kernel is checked in a type before its first use."""
    found = library().warpbook_kernel(session(index), os.fsencode(kernel), number)
    if not found:
        raise RuntimeError(f"warpbook_kernel: {last_error()}")
    return found


def named(kernel: str | os.PathLike[str] | None) -> str | None:
    """Returns a kernel's name with the absolute path of its file, so that a change of the working directory has no effect."""
    if kernel is None:
        return None
    text = os.fspath(kernel)
    file, at, rung = text.partition("@")
    return f"{Path(file).resolve()}{at}{rung}" if file.partition(":")[0].lower().endswith(".cu") else text


def call(torch: Any, name: str, tensor: Any, of: ctypes.Structure, *arguments: Any) -> None:
    """Queues work on the current stream of a tensor's device; tensors are passed by address, None as null."""
    device = tensor.device
    if device.type != "cuda":
        raise RuntimeError(f"Warpbook's layers take tensors on a CUDA device, not on {device}: call .cuda() first.")
    stream = torch.cuda.current_stream(device).cuda_stream
    given = [a.data_ptr() if torch.is_tensor(a) else a for a in arguments]
    if getattr(library(), name)(session(device.index), stream, ctypes.addressof(of), *given) != 0:
        raise RuntimeError(f"{name}: {last_error()}")


def type_number(torch: Any, dtype: Any) -> int:
    numbers = {torch.float16: F16, torch.bfloat16: BF16, torch.float32: F32}
    if dtype not in numbers:
        raise RuntimeError(f"Warpbook's layers take fp32, fp16 and bf16, not {dtype}.")
    return numbers[dtype]


def computed_in(torch: Any, x: Any) -> Any:
    """Returns the type in which a layer computes: autocast's if it is on, otherwise that of its input."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


# ---- the matrix product ----------------------------------------------------------------------------------------------


def gemm(
    torch: Any,
    a: Any,
    b: Any,
    out: Any,
    trans_a: bool = False,
    trans_b: bool = False,
    bias: Any = None,
    kernel: str | None = None,
) -> Any:
    """Computes out = op(a) op(b) + bias for contiguous matrices; the bias is fp32 [n]. If `kernel` is None, Warpbook chooses one."""
    (m, k), n = (reversed(a.shape) if trans_a else a.shape), b.shape[0 if trans_b else 1]
    number = type_number(torch, a.dtype)
    # Rungs without tensor cores take fp32, but not tf32.
    if number == F32 and kernel is None and torch.backends.cuda.matmul.allow_tf32:
        number = TF32
    by = 0 if kernel is None else kernel_number(a.device.index, kernel, number)
    epilogue = PLAIN if bias is None else BIAS
    form = (number, type_number(torch, out.dtype), trans_a, trans_b, epilogue)
    of = Product(m, n, k, a.shape[1], b.shape[1], n, *form, 1.0, 0.0, by)
    call(torch, "warpbook_gemm", a, of, a, b, bias, None, out)
    return out


def conv_of(torch: Any, x: Any, weight: Any, stride: tuple[int, int], padding: tuple[int, int]) -> Convolution:
    pair = ctypes.c_uint32 * 2
    number = type_number(torch, x.dtype)
    if number == F32 and torch.backends.cudnn.allow_tf32:
        number = TF32
    (batch, channels, height, width), (filters, _, kh, kw) = x.shape, weight.shape
    sides = (pair(height, width), channels, filters, pair(kh, kw), pair(*stride), pair(*padding))
    return Convolution(batch, *sides, number, CHANNELS_LAST)


def output_side(size: int, kernel: int, stride: int, padding: int) -> int:
    return (size + 2 * padding - kernel) // stride + 1


@lru_cache
def functions() -> tuple[Any, Any]:
    """Returns the two autograd functions; PyTorch is imported at the first call."""
    import torch

    last = torch.channels_last

    class LinearFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any, bias: Any, kernel: str | None) -> Any:
            dtype = computed_in(torch, x)
            rows = x.reshape(-1, x.shape[-1]).to(dtype).contiguous()
            half = weight.to(dtype).contiguous()
            y = torch.empty((rows.shape[0], weight.shape[0]), dtype=dtype, device=x.device)
            gemm(torch, rows, half, y, trans_b=True, bias=None if bias is None else bias.float(), kernel=kernel)
            ctx.save_for_backward(rows, half)
            ctx.of = (x.shape, x.dtype, weight.dtype, None if bias is None else bias.dtype, kernel)
            return y.view(*x.shape[:-1], -1)

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            rows, half = ctx.saved_tensors
            shape, x_dtype, w_dtype, b_dtype, kernel = ctx.of
            dy = dy.reshape(rows.shape[0], -1).to(rows.dtype).contiguous()
            dx = dw = db = None
            if ctx.needs_input_grad[0]:
                dx = gemm(torch, dy, half, torch.empty_like(rows), kernel=kernel).view(shape).to(x_dtype)
            if ctx.needs_input_grad[1]:
                sums = torch.empty(half.shape, dtype=torch.float32, device=dy.device)
                dw = gemm(torch, dy, rows, sums, trans_a=True, kernel=kernel).to(w_dtype)
            if b_dtype is not None and ctx.needs_input_grad[2]:
                db = dy.sum(0, dtype=torch.float32).to(b_dtype)
            return dx, dw, db, None

    class ConvolutionFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any, bias: Any, stride: tuple[int, int], padding: tuple[int, int]) -> Any:
            dtype = computed_in(torch, x)
            images = x.to(dtype).contiguous(memory_format=last)
            half = weight.to(dtype).contiguous(memory_format=last)
            of = conv_of(torch, images, half, stride, padding)
            sides = [output_side(*side) for side in zip(x.shape[2:], weight.shape[2:], stride, padding)]
            shape = (x.shape[0], weight.shape[0], *sides)
            y = torch.empty(shape, dtype=dtype, device=x.device, memory_format=last)
            added = None if bias is None else bias.float()
            call(torch, "warpbook_conv2d_forward", images, of, images, half, added, 0, y)
            ctx.save_for_backward(images, half)
            ctx.of = (of, x.dtype, weight.dtype, None if bias is None else bias.dtype)
            return y

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            images, half = ctx.saved_tensors
            of, x_dtype, w_dtype, b_dtype = ctx.of
            dy = dy.to(images.dtype).contiguous(memory_format=last)
            dx = dw = db = None
            if ctx.needs_input_grad[0]:
                dx = torch.empty_like(images)
                call(torch, "warpbook_conv2d_input_gradient", images, of, dy, half, None, dx)
                dx = dx.to(x_dtype)
            if ctx.needs_input_grad[1] or (b_dtype is not None and ctx.needs_input_grad[2]):
                dw = torch.empty_like(half, dtype=torch.float32)
                if b_dtype is not None:
                    db = torch.empty(half.shape[0], dtype=torch.float32, device=dy.device)
                call(torch, "warpbook_conv2d_weight_gradient", images, of, images, dy, dw, db)
                dw, db = dw.to(w_dtype), None if db is None else db.to(b_dtype)
            return dx, dw, db, None, None

    return LinearFunction, ConvolutionFunction


def linear(x: Any, weight: Any, bias: Any = None, kernel: str | os.PathLike[str] | None = None) -> Any:
    """`torch.nn.functional.linear` with Warpbook's product: x [..., in], weight [out][in], bias [out].

    `kernel` computes it forwards and in both gradients: a rung, such as "03_shared_tile", or a file of your own, such as "mine.cu" in place of
    02_coalesced, "mine.cu@03_shared_tile" in place of another rung, or "mine.cu@05_register_2d:BM=64,THREADS=128" with other sizes of its
    tile. It is checked when it is first used in a type: an error says what is wrong."""
    return functions()[0].apply(x, weight, bias, named(kernel))


def conv2d(
    x: Any, weight: Any, bias: Any = None, stride: tuple[int, int] = (1, 1), padding: tuple[int, int] = (0, 0)
) -> Any:
    """`torch.nn.functional.conv2d` with Warpbook's convolutions: x [n][c][h][w], weight [o][c][kh][kw]; y is channels_last."""
    return functions()[1].apply(x, weight, bias, tuple(stride), tuple(padding))


@lru_cache
def modules() -> tuple[Any, Any]:
    """Returns the modules `Linear` and `Conv2d`."""
    import torch

    class Linear(torch.nn.Linear):
        # The file that computes the layer; with None, Warpbook chooses.
        kernel: str | None = None

        def forward(self, x: Any) -> Any:
            return linear(x, self.weight, self.bias, self.kernel)

    class Conv2d(torch.nn.Conv2d):
        def forward(self, x: Any) -> Any:
            return conv2d(x, self.weight, self.bias, self.stride, self.padding)

    return Linear, Conv2d


def converted(model: Any, kernel: str | os.PathLike[str] | None = None) -> Any:
    """Returns the same network, whose linear layers and convolutions now compute with Warpbook; its parameters stay.

    With a `kernel`, as `linear` names it, that kernel computes the linear layers, and the convolutions stay PyTorch's.

    Refused is a convolution that Warpbook does not have: with groups, a dilation, or a padding other than zeros."""
    import torch

    ours = dict(zip((torch.nn.Linear, torch.nn.Conv2d), modules()))
    if kernel is not None:
        del ours[torch.nn.Conv2d]
    for name, layer in model.named_modules():
        if type(layer) is torch.nn.Conv2d and torch.nn.Conv2d in ours:
            plain = layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
            if not plain or isinstance(layer.padding, str):
                raise wr.Refused(f"{name or 'the layer'}, {layer}: Warpbook's convolutions support only zero padding, without groups or dilation.")
    for layer in model.modules():
        if type(layer) in ours:
            layer.__class__ = ours[type(layer)]
        if kernel is not None and isinstance(layer, modules()[0]):
            layer.kernel = named(kernel)
    return model


def reverted(model: Any) -> Any:
    """Returns the same network with PyTorch's own layers again."""
    import torch

    theirs = dict(zip(modules(), (torch.nn.Linear, torch.nn.Conv2d)))
    for layer in model.modules():
        if type(layer) in theirs:
            layer.__class__ = theirs[type(layer)]
            layer.__dict__.pop("kernel", None)
    return model


# ---- checks ----------------------------------------------------------------------------------------------------------


def directional_error(torch: Any, f: Any, arguments: list[Any], generator: Any) -> float:
    """Returns how far the gradients of sum(f(..) * r) are from central differences along random directions: the worst error of
    all arguments, relative to the magnitudes that the difference adds up."""
    y = f(*arguments)
    r = torch.randn(y.shape, generator=generator, device=y.device)
    gradients = torch.autograd.grad(y, arguments, r.to(y.dtype))
    errors = []
    for i, (argument, gradient) in enumerate(zip(arguments, gradients)):
        v = torch.randn(argument.shape, generator=generator, device=argument.device)

        def at(step: float) -> Any:
            moved = [(a + step * v if j == i else a).detach() for j, a in enumerate(arguments)]
            return f(*moved).double() * r.double()

        terms = (at(0.5) - at(-0.5)).flatten()
        exact = (gradient.double() * v.double()).flatten()
        # `worst` keeps NaN.
        errors.append(((terms.sum() - exact.sum()).abs() / (terms.norm() + exact.norm())).item())
    return wr.worst(errors)


def relative_error(got: Any, want: Any) -> float:
    return ((got.double() - want).norm() / want.norm().clamp(min=1e-30)).item()


# Epsilon of the type in which a layer computes.
EPSILON = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
SHAPES = {
    "linear": ((5, 3, 2), (64, 784, 128), (129, 77, 65), (512, 9216, 128)),
    "conv2d": (
        # batch, channels, height, width, filters, kernel, stride, padding
        (2, 3, 7, 9, 5, (3, 3), (1, 1), (1, 1)),
        (1, 1, 5, 5, 1, (5, 3), (2, 1), (2, 0)),
        (16, 1, 28, 28, 32, (3, 3), (1, 1), (0, 0)),
        (16, 32, 26, 26, 64, (3, 3), (1, 1), (0, 0)),
        (4, 64, 16, 16, 128, (3, 3), (1, 1), (1, 1)),
    ),
}


def check_layer(
    torch: Any, kind: str, shape: tuple[Any, ...], dtype: Any, kernel: str | None = None
) -> tuple[float, float]:
    """Returns the worst error of y and all gradients against float64, and that of the differences in fp32. `kernel` computes a linear layer."""
    g = torch.Generator(device="cuda").manual_seed(1)

    def draw(*sizes: int) -> Any:
        return torch.randn(sizes, generator=g, device="cuda", requires_grad=True)

    if kind == "linear":
        rows, inputs, outputs = shape
        arguments = [draw(rows, inputs), draw(outputs, inputs), draw(outputs)]
        ours, theirs = lambda *given: linear(*given, kernel=kernel), torch.nn.functional.linear
    else:
        batch, channels, height, width, filters, kernel, stride, padding = shape
        arguments = [draw(batch, channels, height, width), draw(filters, channels, *kernel), draw(filters)]
        ours = lambda x, w, b: conv2d(x, w, b, stride, padding)
        theirs = lambda x, w, b: torch.nn.functional.conv2d(x, w, b, stride, padding)
    with torch.autocast("cuda", dtype=dtype if dtype != torch.float32 else torch.float16, enabled=dtype != torch.float32):
        y = ours(*arguments)
    dy = torch.randn(y.shape, generator=g, device="cuda").to(y.dtype)
    got = [y, *torch.autograd.grad(y, arguments, dy)]
    # The layer sees its arguments rounded to its type, except for the bias.
    seen = [a.detach().to(dtype if i < 2 else a.dtype).double().requires_grad_() for i, a in enumerate(arguments)]
    want = theirs(*seen)
    exact = [want, *torch.autograd.grad(want, seen, dy.double())]
    against = wr.worst(relative_error(a, b) for a, b in zip(got, exact))
    return against, directional_error(torch, ours, arguments, g)


def checked_line(kind: str, shape: tuple[Any, ...], dtype: str, by: str | None, against: float, differences: float, right: bool, as_json: bool) -> str:
    """Formats a check as a line of text, or as the JSON object that crates/warpbook/src/lesson/stock/in_pytorch.rs reads."""
    layer, errors = f"{kind} {shape}", (f"{against:.1e}", f"{differences:.1e}")
    if as_json:
        found = {"layer": layer, "dtype": dtype, "by": by, "from_float64": errors[0], "from_differences": errors[1], "right": right}
        return json.dumps(found)
    by = f" by {by}" if by else ""
    return f"{'ok   ' if right else 'WRONG'} {layer} {dtype}{by}: {errors[0]} from float64, {errors[1]} from differences"


def main() -> int:
    torch = wr.load_torch()
    as_json = "--json" in sys.argv[1:]
    if not torch.cuda.is_available():
        print("warpbook_op.py needs a GPU that PyTorch can use.", file=sys.stderr)
        return 1
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        print(f"{library_file().name} on {torch.cuda.get_device_name()}")
        session(0)
    except wr.Unavailable as e:
        print(f"warpbook_op.py {e}", file=sys.stderr)
        return 1
    wrong = 0
    # The linear layers run with Warpbook's choice, with the rung of 32 x 32 tiles, and with the files named on the command line.
    kernels = [None, "03_shared_tile", *(name for name in sys.argv[1:] if name != "--json")]
    cases = [(kind, shape, kernel) for kind, shapes in SHAPES.items() for shape in shapes for kernel in kernels if kernel is None or kind == "linear"]
    for kind, shape, kernel in cases:
        try:
            for name, epsilon in EPSILON.items():
                against, differences = check_layer(torch, kind, shape, getattr(torch, name), named(kernel))
                # fp32 sums are rounded too, so their bound is wider than an epsilon.
                bounds = (max(epsilon, 1e-5), 1e-4)
                right = against <= bounds[0] and differences <= bounds[1]
                wrong += not right
                print(checked_line(kind, shape, name, kernel, against, differences, right, as_json), flush=True)
        except RuntimeError as e:
            wrong += 1
            print(f"WRONG {kind} {shape} by {kernel}: {e}", flush=True)
    print("All layers are right." if not wrong else f"{wrong} layers are wrong.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
