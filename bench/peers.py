# SPDX-License-Identifier: Apache-2.0
"""peers.py LIBRARY [MB]: sumac against numpy.sum, xsum and math.fsum, on one thread.

Sumac is called here, from the same process and on the same arrays, in turn with each peer, so that a slow
moment of the machine hits both. Rows go to the end of the newest file of bench/results/.
"""

import ctypes
import json
import math
import pathlib
import statistics
import sys
import time

try:
    import numpy as np
except ImportError:
    print("left out: numpy, xsum and fsum (this Python has no numpy)")
    sys.exit(0)
try:
    import xsum
except ImportError:
    xsum = None
    print("left out: xsum (this Python does not have it)")

REPETITIONS = 9
SUM, EXACT, F64, F32 = 0, 0, 1, 2  # sumac_op, sumac_acc


class Dtype(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", Dtype),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("axes", ctypes.c_void_p),
        ("naxes", ctypes.c_int32),
        ("acc", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
        ("reserved0", ctypes.c_uint32),
        ("ddof", ctypes.c_int64),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class Config(ctypes.Structure):
    _fields_ = [
        ("threads", ctypes.c_int32),
        ("cpu_features", ctypes.c_uint32),
        ("hooks", ctypes.c_void_p * 3),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class Sumac:
    """A context of one thread."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.sumac_error_message.restype = ctypes.c_char_p
        self.library.sumac_context_isa.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        config = Config(threads=1)
        self.check(self.library.sumac_context_create(ctypes.byref(config), ctypes.byref(self.context)))
        self.isa = self.library.sumac_context_isa(self.context).decode()

    def check(self, status):
        if status:
            raise RuntimeError(self.library.sumac_error_message().decode())

    def sum(self, x, acc):
        """The sum of a float array, always given as f64."""
        value, size = ctypes.c_double(), ctypes.c_int64(x.size)
        tensor = Tensor(x.ctypes.data, (1, 0), 1, Dtype(2, 8 * x.itemsize, 1), ctypes.pointer(size))
        out = Tensor(ctypes.addressof(value), (1, 0), 0, Dtype(2, 64, 1))
        options = Options(acc=acc)
        x, how, to = ctypes.byref(tensor), ctypes.byref(options), ctypes.byref(out)
        self.check(self.library.sumac_reduce(self.context, SUM, x, None, how, to))
        return value.value


def xsum_sum(x):
    accumulator = xsum.xsum_large()
    for begin in range(0, x.size, 1 << 20):
        accumulator.add(x[begin : begin + (1 << 20)].astype(np.float64, copy=False))
    return accumulator.round()


def exact_by_another(x):
    """The right sum, by a program that is not ours."""
    return xsum_sum(x) if xsum else math.fsum(x)


def noise(values):
    """Half of the distance of the quartiles, relative."""
    lower, middle, upper = statistics.quantiles(values, n=4)
    return (upper - lower) / 2 / middle


def compare(rows, sumac, name, acc, data, arrays, peer_name, peer, target):
    """Times sumac and a peer in turn, each on the one and the other of two arrays; appends a row for each."""
    seconds, wrong = ([], []), 0
    right = [exact_by_another(x) for x in arrays]
    magnitude = [float(np.sum(np.abs(x, dtype=np.float64))) for x in arrays]
    for repetition in range(-1, REPETITIONS):  # the first warms up
        for turn in range(2):
            x = arrays[turn]
            which = (repetition + turn) % 2
            start = time.perf_counter()
            value = peer(x) if which else sumac.sum(x, acc)
            elapsed = time.perf_counter() - start
            if repetition < 0:
                continue
            seconds[which].append(elapsed)
            if which == 0:
                unit = 2**-53 if x.dtype == np.float64 else 2**-24
                bound = 0 if acc == EXACT else (301 + math.log2(x.size)) * unit * magnitude[turn]
                wrong += not abs(value - right[turn]) <= bound
    ratios = [peer_time / own for own, peer_time in zip(*seconds)]
    x = arrays[0]
    common = {"data": data, "dtype": f"f{8 * x.itemsize}", "op": "sum", "threads": 1, "bytes": x.nbytes}

    def row(name, isa, times, **more):
        median = statistics.median(times)
        speed = {"median_s": median, "gbs": 1e-9 * x.nbytes / median}
        return {"name": name, "isa": isa, **common, **speed, **more}

    ratio, upper = statistics.quantiles(ratios, n=4)[1:]
    reached = "met" if ratio >= target else "tie" if upper >= target else "missed"
    status = "WRONG" if wrong else reached
    goal = {"against": peer_name, "ratio": ratio, "target_of": "ratio", "target": target, "status": status}
    rows.append(row(name, sumac.isa, seconds[0], **goal, noise=noise(ratios), wrong=wrong))
    rows.append(row(peer_name, "peer", seconds[1], status="-", noise=noise(seconds[1]), wrong=0))


def copies(x):
    return [x, x.copy()]


def measure(sumac, megabytes):
    rows = []
    random = np.random.default_rng(1)
    n = megabytes * 10**6 // 8

    normal = copies(random.standard_normal(n))
    compare(rows, sumac, "exact sum", EXACT, "normal", normal, "numpy.sum", np.sum, 2)
    compare(rows, sumac, "plain sum", F64, "normal", normal, "numpy.sum", np.sum, 0.97)
    if xsum:
        compare(rows, sumac, "exact sum", EXACT, "normal", normal, "xsum large", xsum_sum, 2.8)
    # A list, which math.fsum is fastest on; only a million numbers, since each takes it 50 ns.
    million = [x[:1000000] for x in normal]
    lists = {x.ctypes.data: x.tolist() for x in million}
    fsum = lambda x: math.fsum(lists[x.ctypes.data])
    compare(rows, sumac, "exact sum", EXACT, "normal", million, "math.fsum", fsum, 50)
    del normal, million, lists

    if xsum:
        sign = random.integers(0, 2, n) * 2 - 1
        wide = copies(sign * 10 ** random.uniform(-300, 300, n))
        compare(rows, sumac, "exact sum", EXACT, "1e-300 .. 1e300", wide, "xsum large", xsum_sum, 0.9)
        del wide

    normal = copies(random.standard_normal(2 * n, dtype=np.float32))
    compare(rows, sumac, "exact sum", EXACT, "normal", normal, "numpy.sum", np.sum, 2)
    compare(rows, sumac, "plain sum", F32, "normal", normal, "numpy.sum", np.sum, 0.97)
    # f16 of numpy takes a nanosecond and more for each: a quarter of the bytes.
    normal = copies(normal[0][: n // 2 * 2].astype(np.float16))
    compare(rows, sumac, "exact sum", EXACT, "normal", normal, "numpy.sum", np.sum, 20)
    return rows


def main():
    results = pathlib.Path(__file__).parent / "results"
    path = max(results.glob("*.json"), key=lambda file: file.stat().st_mtime)
    sumac = Sumac(sys.argv[1])
    rows = measure(sumac, int(sys.argv[2]) if len(sys.argv) > 2 else 400)
    order = ["WRONG", "missed", "tie", "met", "-"]
    print(f"\npeers: numpy {np.__version__}, one thread")
    for row in sorted(rows, key=lambda row: order.index(row["status"])):
        what = f"{row['name']:12} {row['data']:16} {row['dtype']:4} {row['isa']:7}"
        line = f"{row['status']:7} {what} {row['gbs']:7.2f} GB/s"
        if "ratio" in row:
            line += f"  {row['ratio']:7.2f} ±{100 * row['noise']:4.1f}%"
            line += f"  of {row['target']:<5g} x {row['against']}"
        print(line)
    content = json.loads(path.read_text())
    content["peers"] = {"python": sys.version.split()[0], "numpy": np.__version__}
    content["rows"] += rows
    lines = ",\n".join("    " + json.dumps(row) for row in content.pop("rows"))
    head = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    path.write_text(f'{{\n{head},\n  "rows": [\n{lines}\n  ]\n}}\n')
    print(f"added to: {path}")
    sys.exit(any(row["wrong"] for row in rows))


main()
