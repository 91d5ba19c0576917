# SPDX-License-Identifier: Apache-2.0
"""gpu_report.py DIR [TO]: makes report.html and report.md (in TO, else DIR) of the JSON rows in DIR/*.jsonl.

A point is an operation, dtype, kind of data and size. At each the library's plain and exact results are
compared with the fastest peer of the kind: ratios are the other's time over ours, above 1 where we are
faster. A ratio within the noise of both, or within 1 %, is a tie. The ceiling is the fastest plain read of as
many bytes. Wrong results are listed and compared with nobody.
"""

import collections
import html
import json
import math
import pathlib
import sys

TIE = 0.01
COLUMNS = {"graph_us": "graph replay", "isolated_us": "isolated call"}
PLAIN = {"f64": "f64", "f32": "f32", "f16": "f32", "bf16": "f32", "e4m3fn": "f32", "e5m2": "f32"}  # else i64
OURS = {"plain": "#1f6fb4", "exact": "#c23b22"}
COLOURS = ["#2e8b57", "#8a5fbf", "#b8860b", "#708090", "#d1699d", "#3aa6a6", "#8b4513", "#9acd32"]


def load(directory):
    rows = []
    for path in sorted(pathlib.Path(directory).glob("*.jsonl")):
        rows += [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
    if not rows:
        sys.exit(f"{directory}: no rows in *.jsonl")
    return [row for row in rows if row["who"] == "device"], [row for row in rows if row["who"] != "device"]


class Results:
    def __init__(self, rows):
        self.ceiling = {}  # by bytes: the fastest read
        self.points = collections.defaultdict(lambda: collections.defaultdict(dict))  # who, by case, by bytes
        for row in rows:
            if row["wrong"]:
                continue  # it may not even have read its input: compared with nobody
            if row["who"].startswith("read "):
                best = self.ceiling.setdefault(row["bytes"], row)
                if row["graph_us"] < best["graph_us"]:
                    self.ceiling[row["bytes"]] = row
            else:
                case = row["op"], row["dtype"], row["data"]
                self.points[case][self.name(row)][row["bytes"]] = row

    @staticmethod
    def name(row):
        """Ours are "exact" and "plain": the accumulator that peers have."""
        if row["who"] != "sumac":
            return row["who"] + (" " + row["acc"] if row["dtype"].startswith("i") else "")
        return "plain" if row["acc"] == PLAIN.get(row["dtype"], "i64") else row["acc"]

    def best(self, case, column, wanted):
        """By bytes: the fastest row of those whose name is wanted."""
        best = {}
        for name, by_bytes in self.points[case].items():
            for size, row in by_bytes.items():
                if wanted(name) and row.get(column):
                    best[size] = min(best.get(size, row), row, key=lambda row: row[column])
        return best

    def share(self, row, column="graph_us"):
        ceiling = self.ceiling.get(row["bytes"])
        return ceiling[column] / row[column] if ceiling and row.get(column) and row[column] > 0 else None


def is_peer(name):
    return name not in ("plain", "exact", "f64", "f32", "i64") and "gpu_to_gpu" not in name


COMPARISONS = {  # ours against theirs
    "plain / best peer": ("plain", is_peer),
    "exact / best peer": ("exact", is_peer),
    "exact / gpu_to_gpu": ("exact", lambda name: "gpu_to_gpu" in name),
    "exact / own plain": ("exact", lambda name: name == "plain"),
}


class Tally:
    """Of the sizes of one case: ratios, and how many are wins, ties and losses."""

    def __init__(self, ours, theirs, column):
        self.points = []  # bytes, ratio, whose, outcome
        for size in sorted(ours.keys() & theirs.keys()):
            own, other = ours[size], theirs[size]
            if not own.get(column) or own[column] <= 0 or other[column] <= 0:
                continue  # an isolated time is a difference, and may drown in noise
            ratio = other[column] / own[column]
            noise = max(TIE, own["noise"], other["noise"])
            outcome = "tie" if abs(ratio - 1) <= noise else "win" if ratio > 1 else "loss"
            self.points.append((size, ratio, other["who"], outcome))

    def count(self, outcome):
        return sum(point[3] == outcome for point in self.points)

    @property
    def mean(self):
        return math.exp(sum(math.log(point[1]) for point in self.points) / len(self.points))

    @property
    def worst(self):
        return min(self.points, key=lambda point: point[1])


def tallies(results, column):
    """Comparison, case, tally: those with most losses first."""
    found = []
    for comparison, (own, theirs) in COMPARISONS.items():
        for case in results.points:
            ours = results.best(case, column, lambda name, own=own: name == own)
            tally = Tally(ours, results.best(case, column, theirs), column)
            if tally.points:
                found.append((comparison, case, tally))
    return sorted(found, key=lambda entry: (-entry[2].count("loss"), entry[2].mean, entry[1]))


def readable(size):
    for power, unit in (30, "GB"), (20, "MB"), (10, "KB"):
        if size >= 1 << power:
            return f"{size >> power} {unit}"
    return f"{size} B"


def title(case):
    op, dtype, data = case
    return f"{op} {dtype}" + ("" if data in ("normal", "random codes") else f", {data}")


def markdown(devices, results, wrong):
    """One line a case: what is read first, and kept in the performance log."""
    device = devices[0] if devices else {}
    lines = [", ".join(device.get(key, "?") for key in ("name", "driver_version", "commit", "date")) + "."]
    means = "Geometric means of time ratios, above 1: faster; wins/ties/losses."
    lines += [f"{wrong} wrong results. {means}", ""]
    names = [*COMPARISONS, "share of the ceiling from 1 GB: plain", "exact"]
    lines += ["| graph replay | " + " | ".join(names) + " |", "|---" * (1 + len(names)) + "|"]
    cells = collections.defaultdict(dict)
    for comparison, case, tally in tallies(results, "graph_us"):
        counts = "/".join(str(tally.count(outcome)) for outcome in ("win", "tie", "loss"))
        cells[case][comparison] = f"{tally.mean:.2f} {counts}"
    for case in results.points:
        for own, name in ("plain", names[-2]), ("exact", names[-1]):
            rows = results.best(case, "graph_us", lambda name, own=own: name == own)
            shares = [results.share(row) for size, row in rows.items() if size >= 1 << 30]
            if shares and None not in shares:
                cells[case][name] = f"{min(shares):.3f}"
    for case, cell in cells.items():
        lines.append(f"| {title(case)} | " + " | ".join(cell.get(name, "–") for name in names) + " |")
    return "\n".join(lines) + "\n"


# ---- the page

STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1180px;padding:0 1em;color:#222}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:2px 9px;text-align:right}
td:first-child,td:nth-child(2),th:first-child,th:nth-child(2){text-align:left}
tr:nth-child(even){background:#f4f4f4}
.loss{color:#b00020;font-weight:600}.win{color:#1b7a36}.wrong{background:#b00020;color:#fff;padding:.4em}
.plots{display:flex;flex-wrap:wrap;gap:1em}figure{margin:0 0 1em}svg text{font-size:11px;fill:#444}"""


def plot(results, case, column):
    """Shares of the ceiling over sizes."""
    width, height, left, bottom, top = 560, 260, 40, 24, 10
    series = {}
    for name, by_bytes in results.points[case].items():
        shares = [(size, results.share(row, column)) for size, row in sorted(by_bytes.items())]
        shares = [(size, share) for size, share in shares if share]
        if shares:
            series[name] = shares
    if not series:
        return ""
    most = 1.05 * max(1, min(2, max(share for shares in series.values() for _, share in shares)))
    sizes = sorted({size for shares in series.values() for size, _ in shares})
    low, high = math.log2(sizes[0]), max(math.log2(sizes[-1]), math.log2(sizes[0]) + 1)
    x = lambda size: left + (width - left - 20) * (math.log2(size) - low) / (high - low)
    y = lambda share: top + (height - bottom - top) * (1 - min(share, most) / most)
    parts = [f'<svg width="{width}" height="{height + 16 * ((len(series) + 2) // 3)}" role="img">']
    for share in (0, 0.25, 0.5, 0.75, 1, 1.5, 2):
        if share <= most:
            at, stroke = f"{y(share):.1f}", "#999" if share == 1 else "#e4e4e4"
            parts.append(f'<path d="M{left} {at}H{width - 20}" stroke="{stroke}"/>')
            parts.append(f'<text x="{left - 6}" y="{at}" text-anchor="end" dy="4">{share:g}</text>')
    for size in sizes:
        parts.append(f'<text x="{x(size):.1f}" y="{height - 8}" text-anchor="middle">{readable(size)}</text>')
    others = sorted(name for name in series if name not in OURS)
    colours = OURS | {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(others)}
    for i, name in enumerate(sorted(series, key=lambda name: (name not in OURS, name))):
        points = " ".join(f"{x(size):.1f},{y(share):.1f}" for size, share in series[name])
        stroke = f'stroke="{colours[name]}" stroke-width="{2.4 if name in OURS else 1.3}"'
        dashes = f' stroke-dasharray="{3 + i} 3"' if name not in OURS else ""
        parts.append(f'<polyline points="{points}" fill="none" {stroke}{dashes}/>')
        at = f'x="{left + 175 * (i % 3)}" y="{height + 12 + 16 * (i // 3)}"'
        parts.append(f'<text {at} style="fill:{colours[name]}">{html.escape(name)}</text>')
    caption = html.escape(f"{title(case)}: {COLUMNS[column]}")
    return f"<figure><figcaption>{caption}</figcaption>{''.join(parts)}</svg></figure>"


def table(results, column):
    head = "comparison,case,mean,wins,ties,losses,worst,at,against".split(",")
    lines = ["<table><tr>" + "".join(f"<th>{cell}" for cell in head)]
    for comparison, case, tally in tallies(results, column):
        size, ratio, who, outcome = tally.worst
        counts = [tally.count(outcome) for outcome in ("win", "tie", "loss")]
        cells = [comparison, title(case), f"{tally.mean:.2f}", *counts, f"{ratio:.2f}", readable(size), who]
        style = "loss" if counts[2] else "win"
        lines.append(f'<tr><td class="{style}">' + "<td>".join(html.escape(str(cell)) for cell in cells))
    return "\n".join(lines) + "</table>"


def page(devices, results, rows):
    wrong = [row for row in rows if row["wrong"]]
    parts = ['<!doctype html><html lang="en"><meta charset="utf-8"><title>sumac on a CUDA device</title>']
    parts.append(f"<style>{STYLE}</style><h1>sumac on a CUDA device</h1>")
    for device in devices:
        facts = ", ".join(f"{key} {value}" for key, value in device.items() if key != "who")
        parts.append(f"<p>{html.escape(facts)}")
    parts.append(f"<p>{html.escape(__doc__.split(chr(10), 2)[2])}")
    for row in wrong:
        parts.append(f'<p class="wrong">wrong: {html.escape(json.dumps(row))}')
    if not wrong:
        parts.append(f"<p>No wrong result in {len(rows)} rows.")
    for column, name in COLUMNS.items():
        parts.append(f"<h2>Losses first: {name}</h2>{table(results, column)}")
    parts.append('<h2>Share of the ceiling</h2><div class="plots">')
    parts += [plot(results, case, column) for case in results.points for column in COLUMNS]
    parts.append("</div><h2>All rows, µs</h2><table>")
    keys = "who op dtype acc data bytes graph_us isolated_us stream_us GBs noise wrong slow_tiles".split()
    parts.append("<tr>" + "".join(f"<th>{key}" for key in keys))
    for row in rows:
        cells = ["" if row.get(key) is None else str(row[key]) for key in keys]
        parts.append("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in cells))
    return "\n".join(parts) + "</table></html>\n"


def main():
    directory = pathlib.Path(sys.argv[1])
    to = pathlib.Path(sys.argv[-1])
    devices, rows = load(directory)
    results = Results(rows)
    text = markdown(devices, results, sum(row["wrong"] for row in rows))
    (to / "report.md").write_text(text)
    (to / "report.html").write_text(page(devices, results, rows))
    print(text, end="")


main()
