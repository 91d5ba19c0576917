# SPDX-License-Identifier: Apache-2.0
"""gpu_peers.py [--dtypes f32,f64] [--sizes 1024,...] [--repetitions 9] [--calls 256] [--mb 4096]

Measures torch, CuPy and JAX by the protocol of protocol.h as far as they can: the same sizes, sequences and
columns. JAX is not captured in graphs and only has its stream column. One JSON row a line.
"""

import argparse
import json
import math
import os
import statistics
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # there are others
try:
    import torch
except ImportError:
    print("left out: torch, CuPy and JAX (this Python has no torch)", file=sys.stderr)
    sys.exit(0)
if not torch.cuda.is_available():
    print("left out: torch, CuPy and JAX (torch sees no CUDA device)", file=sys.stderr)
    sys.exit(0)
try:
    import cupy
except ImportError:
    cupy = None
    print("left out: CuPy", file=sys.stderr)
try:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
except ImportError:
    jax = None
    print("left out: JAX", file=sys.stderr)

PATTERN, SEQUENCE, MOST_CALLS, LEAST_CALLS = 64 << 20, 256 << 20, 256, 4
FLOATS = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
INTEGERS = {"i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64}
UNIT = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}


def torch_calls(dtype):
    calls = {("torch", "sum"): lambda x, y: torch.sum(x)}
    if dtype in FLOATS:
        calls["torch", "dot"] = torch.dot
        calls["torch", "mean"] = lambda x, y: torch.mean(x)
        calls["torch", "var"] = lambda x, y: torch.var(x, correction=0)
        calls["torch", "std"] = lambda x, y: torch.std(x, correction=0)
        calls["torch", "norm1"] = lambda x, y: torch.linalg.vector_norm(x, 1)
        calls["torch", "norm2"] = lambda x, y: torch.linalg.vector_norm(x, 2)
    return calls


def cupy_calls(dtype):
    if cupy is None or dtype == "bf16":  # which it does not have
        return {}
    wide = {"f16": cupy.float32}.get(dtype)
    return {("cupy", "sum"): lambda x, y: cupy.sum(x, dtype=wide)}


def jax_calls(dtype):
    if jax is None:
        return {}
    wide = jnp.float32 if dtype in ("f16", "bf16") else jnp.int64 if dtype in INTEGERS else None
    return {("jax", "sum"): jax.jit(lambda x, y: jnp.sum(x, dtype=wide))}


class Memory:
    """Two arrays that hold a pattern again and again."""

    def __init__(self, name, size):
        self.name = name
        self.dtype = (FLOATS | INTEGERS)[name]
        self.itemsize = torch.empty((), dtype=self.dtype).element_size()
        self.arrays = [self.filled(seed, size) for seed in (1, 2)]

    def filled(self, seed, size):
        generator = torch.Generator("cuda").manual_seed(seed)
        n = min(size, PATTERN) // self.itemsize
        if self.name in FLOATS:
            pattern = torch.randn(n, device="cuda", generator=generator, dtype=torch.float32).to(self.dtype)
        else:
            most = 2 ** min(8 * self.itemsize - 1, 39)
            pattern = torch.randint(-most, most, (n,), device="cuda", generator=generator).to(self.dtype)
        return pattern.repeat(max(1, size // PATTERN))

    def slot(self, array, slot, size):
        n = size // self.itemsize
        return self.arrays[array][slot * n : (slot + 1) * n]


def is_wrong(op, x, y, got, unit):
    if not x.dtype.is_floating_point:
        return got != int(torch.sum(x))
    x = x.double()
    with_y = x * y.double() if op == "dot" else x
    exact = {
        "sum": lambda: (with_y.sum(), with_y.abs().sum()),
        "dot": lambda: (with_y.sum(), with_y.abs().sum()),
        "mean": lambda: (x.mean(), x.abs().mean()),
        "var": lambda: 2 * (x.var(correction=0),),
        "std": lambda: 2 * (x.std(correction=0),),
        "norm1": lambda: 2 * (x.abs().sum(),),
        "norm2": lambda: 2 * (x.square().sum().sqrt(),),
    }
    want, terms = (float(value) for value in exact[op]())
    if math.isinf(got):
        return abs(want) < 65504
    accumulator = UNIT["f64"] if unit == UNIT["f64"] else UNIT["f32"]
    return not abs(got - want) <= (301 + math.log2(x.numel())) * accumulator * terms + 2 * unit * abs(want)


def quartiles(values):
    lower, middle, upper = statistics.quantiles(values, n=4) if len(values) > 1 else 3 * values
    return middle, (upper - lower) / middle


def timed(run, repetitions):
    """Milliseconds of run(), several times, by events on the current stream."""
    times, warm = [], 0.0
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    while len(times) < repetitions:
        begin.record()
        run()
        end.record()
        end.synchronize()
        elapsed = begin.elapsed_time(end)
        if warm > 1:
            times.append(elapsed)
        else:
            warm += elapsed
    return times


def timed_by_clock(run, repetitions):
    times = []
    for repetition in range(repetitions + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if repetition > 1:
            times.append(1e3 * (time.perf_counter() - start))
    return times


class Sequence:
    """Calls that follow each other, with or without other kernels between them."""

    def __init__(self, call, inputs):
        self.call, self.inputs = call, inputs
        self.scratch = torch.empty(4096, dtype=torch.uint8, device="cuda")

    def run(self, others=False, calls=True):
        result = None
        for x, y in self.inputs:
            if others:
                self.scratch.zero_()
            if calls:
                result = self.call(x, y)
        return result

    def graph(self, repetitions, **way):
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="relaxed")  # torch.cuda.graph() would collect garbage first
        self.run(**way)
        graph.capture_end()
        return timed(graph.replay, repetitions)


def measure(who, op, call, memory, size, options):
    inputs = 2 if op == "dot" else 1
    one = size // inputs
    total = options.mb << 20
    count = min(options.calls, max(LEAST_CALLS, min(MOST_CALLS, SEQUENCE // size)))
    slots = min(count, total // one)
    tensors = [tuple(memory.slot(a, i % slots, one) for a in (0, 1)) for i in range(count)]
    x, y = tensors[0]
    if who == "cupy":
        views = [(cupy.from_dlpack(x), None) for x, _ in tensors]
    elif who == "jax":
        views = [(jax.dlpack.from_dlpack(x), None) for x, _ in tensors]
    else:
        views = tensors
    sequence = Sequence(call, views)
    got = call(*views[0])
    out = str(got.dtype).replace("torch.", "")
    unit = UNIT[{"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}.get(out, "f64")]
    row = {"who": f"{who} {sys.modules[who].__version__}", "op": op, "dtype": memory.name}
    row |= {"acc": out, "data": "normal" if memory.name in FLOATS else "random codes", "bytes": size}
    row["wrong"] = int(is_wrong(op, x, y, got.item(), unit))
    if who == "jax":
        times = timed_by_clock(lambda: sequence.run().block_until_ready(), options.repetitions)
        median, noise = quartiles(times)
        graph = isolated = None
        queued = median
    else:
        median, noise = quartiles(sequence.graph(options.repetitions))
        graph = median
        with_others = quartiles(sequence.graph(options.repetitions, others=True))[0]
        only_others = quartiles(sequence.graph(options.repetitions, others=True, calls=False))[0]
        isolated = with_others - only_others
        queued = quartiles(timed(sequence.run, options.repetitions))[0]
    for name, value in ("graph_us", graph), ("isolated_us", isolated), ("stream_us", queued):
        row[name] = None if value is None else round(1e3 * value / count, 3)
    row |= {"noise": round(noise, 4), "GBs": round(1e-6 * size * count / median)}
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtypes", default=",".join(FLOATS | INTEGERS))
    parser.add_argument("--sizes", default="")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--calls", type=int, default=MOST_CALLS)
    parser.add_argument("--mb", type=int, default=4096)
    options = parser.parse_args()
    sizes = [4**k << 10 for k in range(12) if 4**k << 10 <= options.mb << 20]
    if options.sizes:
        sizes = [size for size in sizes if str(size) in options.sizes.split(",")]
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    if cupy is not None:
        cupy.cuda.ExternalStream(stream.cuda_stream).use()
    for name in options.dtypes.split(","):
        if name not in FLOATS | INTEGERS:
            continue
        memory = Memory(name, options.mb << 20)
        rows = []
        for (who, op), call in (torch_calls(name) | cupy_calls(name) | jax_calls(name)).items():
            try:
                for size in sizes:
                    rows.append(measure(who, op, call, memory, size, options))
            except Exception as error:  # a peer that fails is left out; the others go on
                print(f"left out: {who} {op} {name}: {error}", file=sys.stderr)
        # A dtype is there as a whole or not at all: gpu.sh measures those that are missing.
        print("".join(json.dumps(row) + "\n" for row in rows), end="", flush=True)
        del memory
        torch.cuda.empty_cache()


main()
