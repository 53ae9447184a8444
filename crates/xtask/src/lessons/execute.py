"""Executes a notebook with the Rust kernel: execute.py NOTEBOOK TIMEOUT_S [--until-plot] [--write]

The last line of its output is a JSON object: how many cells ran, the seconds from the first cell's start to the first
plot (null without one), the seconds of each cell that tries an exercise, and the error of the cell that failed, if one did. With --write the outputs are stored in the
notebook, which is replaced in one step.
"""

import json
import os
import re
import sys
import time

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

path, timeout = sys.argv[1], int(sys.argv[2])
until_plot, write = "--until-plot" in sys.argv, "--write" in sys.argv
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


STORED = "*The outputs were stored on {}. Where a cell shows a published record, it shows the record as it was then.*"
STORED_LINE = re.compile(re.escape(STORED).replace(re.escape("{}"), "[^.]*"))


def dated(notebook, today):
    """Says in the notebook's first cell since when its outputs are stored."""
    line, first = STORED.format(today), notebook.cells[0]
    if STORED_LINE.search(first.source):
        first.source = STORED_LINE.sub(line, first.source)
    else:
        first.source = f"{first.source}\n\n{line}"


STYLE = re.compile(r"<style>\.wb\{.*?</style>", re.S)
COLOUR = re.compile(r'<span class="wb-[nkdtspcb]">([^<]*)</span>')
BODY = re.compile(r"<tbody>(.*?)</tbody>", re.S)
# Rows of a table that are stored, and lines of the text beside HTML, which only viewers without HTML show.
MOST_ROWS, MOST_LINES = 40, 24


def shortened(body):
    """A table's first rows, and how many are left out."""
    rows = body[1].split("</tr>")[:-1]
    left_out = len(rows) - MOST_ROWS
    if left_out < 2:
        return body[0]
    columns = len(re.findall(r"<t[dh][ >]", rows[0]))
    last = f'<tr><td colspan="{columns}">{left_out} more rows appear when you run the cell.</td></tr>'
    return f"<tbody>{''.join(row + '</tr>' for row in rows[:MOST_ROWS])}{last}</tbody>"


def lighten(notebook):
    """Keeps stored outputs small: viewers that remove styles show nothing of them, and long tables appear on running.

    The first output keeps its style, for viewers that trust the notebook.
    """
    styled = False
    for output in (o for cell in notebook["cells"] for o in cell.get("outputs", [])):
        data = output.get("data", {})
        if "text/html" not in data:
            continue
        html = "".join(data["text/html"])
        html = BODY.sub(shortened, COLOUR.sub(r"\1", html))
        if styled:
            html = STYLE.sub("", html)
        styled = styled or bool(STYLE.search(html))
        data["text/html"] = html
        lines = "".join(data.get("text/plain", "")).split("\n")
        if len(lines) > MOST_LINES + 1:
            lines = [*lines[:MOST_LINES], f"... {len(lines) - MOST_LINES} more lines appear when you run the cell."]
            data["text/plain"] = "\n".join(lines)


class PlotSeen(Exception):
    """Ends a run that only wants the first plot."""


class SaidError(Exception):
    """A cell printed to stderr."""


class Client(NotebookClient):
    begin = None
    cell = None
    first_plot = None
    executed = 0
    cell_begin = 0.0
    tries = ()

    def process_message(self, msg, cell, cell_index):
        if self.first_plot is None and msg["msg_type"] in ("execute_result", "display_data"):
            texts = msg["content"].get("data", {}).values()
            if any("data:image/svg+xml" in t for t in texts if isinstance(t, str)):
                self.first_plot = time.monotonic() - self.begin
        return super().process_message(msg, cell, cell_index)


def on_execute(cell, cell_index):
    client.begin = client.begin or time.monotonic()
    client.cell = cell
    client.cell_begin = time.monotonic()


def on_executed(cell, cell_index, execute_reply):
    client.executed += execute_reply["content"]["status"] == "ok"
    if ".try_source(" in cell.source:
        client.tries += (time.monotonic() - client.cell_begin,)
    # A cell that ends early through `?` prints its error and counts as done.
    said = "".join(o["text"] for o in cell.outputs if o.output_type == "stream" and o.name == "stderr")
    if said.strip() and "raises-exception" not in cell.metadata.get("tags", []):
        raise SaidError(said.strip())
    if until_plot and client.first_plot is not None:
        raise PlotSeen


notebook = nbformat.read(path, as_version=4)
client = Client(
    notebook,
    kernel_name="rust",
    timeout=timeout,
    startup_timeout=120,
    # What the kernel prints last may arrive after its reply.
    iopub_timeout=30,
    record_timing=False,
    coalesce_streams=True,
    resources={"metadata": {"path": os.path.dirname(os.path.abspath(path))}},
    on_cell_execute=on_execute,
    on_cell_executed=on_executed,
)
error = None
try:
    client.execute()
except PlotSeen:
    pass
except SaidError as e:
    error = ANSI.sub("", str(e))
except CellExecutionError:
    # The kernel's reply names no error; its messages do.
    errors = [o for o in client.cell.outputs if o.output_type == "error"]
    error = next((o.evalue or ANSI.sub("", "\n".join(o.traceback)) for o in errors), "the cell failed")
except CellTimeoutError:
    error = f"the cell had not ended after {timeout} s"
except DeadKernelError:
    error = "the kernel died"
except RuntimeError as e:
    error = f"the kernel did not start: {e}"

if error is not None and client.begin is not None:
    # The rest is in the log.
    error = " ".join(line.strip() for line in error.strip().splitlines()[:2])
    error = f"{error} (in the cell that begins `{client.cell.source.strip().splitlines()[0]}`)"
    for output in client.cell.get("outputs", []):
        text = output.get("text") or "\n".join(output.get("traceback", []))
        print(ANSI.sub("", text), file=sys.stderr)

if write and error is None:
    dated(notebook, f"{time.gmtime().tm_mday} {time.strftime('%B %Y', time.gmtime())}")
    lighten(notebook)
    nbformat.validate(notebook)
    part = f"{path}.{os.getpid()}.part"
    nbformat.write(notebook, part)
    os.replace(part, path)

outcome = {"cells": client.executed, "first_plot_s": client.first_plot, "tries_s": client.tries, "error": error}
print(json.dumps(outcome))
