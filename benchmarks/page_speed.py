"""Times the page in Debian's Chromium: its start, its bytes, a slider to its chart, 200 candidates, and a fleet of
10,000 volumes sorted and filtered.

    python benchmarks/page_speed.py [--samples 40] [--json FILE]

Each row has its bar, the number of samples, median, 95th percentile and worst. Times are wall clock
on this machine as it is: the load before is printed with them. A part that lacks a browser or the
model for browsers says so.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/unit/shared"), str(ROOT / "tests/unit/ui")]
from browsers import lacking, launched  # noqa: E402  # pyright: ignore[reportMissingImports]
from samples import fleet_rows  # noqa: E402  # pyright: ignore[reportMissingImports]

STARTS = 7  # of the program; each takes a second (chosen)
CANDIDATES = 200
LONG_TASK_MS = 50  # of the browsers' own definition of a long task
DEVICES = 10_000
DATABASE = "database?w=sysbench-tpcc:warehouses=1000,cache_gib=25,threads=16&storage=gp3:500:6000"
REPLICA = "replicas?w=sysbench-tpcc:warehouses=1000,cache_gib=25,threads=16&storage=gp3:500:6000&replica=gp3:500:3000"
PLAN = "plan?w=demo:day&compare=gp2:1200"
# Bars of the page's figures, ms but for bytes.
BARS = {
    "start": 1_000,
    "paint": 1_500,
    "bytes": 150 * 1024,
    "bytes_model": 600 * 1024,
    "slider": 33,
    "server": 100,
    "candidates": 500,
    "sort": 50,
    "filter": 30,
}

# Bytes of each file that came, as sent.
SIZES = """Object.fromEntries(performance.getEntriesByType("resource").map(entry => [new URL(entry.name).pathname, entry.encodedBodySize]))"""
# Moves a slider and waits until the title that the model's answer changes is there, and with it the charts, which are drawn
# at once; the turn of the event loop lets a chart's own task pass. `frames`: until the frame that has them has left the page's thread.
MOVE = """async ([label, samples]) => {
  const figures = () => { const words = document.querySelector(".head").textContent, digits = document.querySelector(".head h1").textContent.match(/[\\d.,]+/g); if (!digits) throw new Error(words); return digits.join(); };
  const slider = [...document.querySelectorAll("input[type=range]")].find(input => input.ariaLabel === label), title = document.querySelector(".head"), times = [], frames = [], tasks = [0];
  new PerformanceObserver(list => tasks.push(...list.getEntries().map(entry => entry.duration))).observe({ entryTypes: ["longtask"] });
  for (let at = 0; at < samples; at++) {
    const changed = new Promise(done => {
      const before = figures();
      const watcher = new MutationObserver(() => { if (figures() !== before) { watcher.disconnect(); done(true); } });
      watcher.observe(title, { subtree: true, childList: true, characterData: true });
      setTimeout(() => { watcher.disconnect(); done(false); }, 3000);
    });
    const began = performance.now();
    slider.value = 200 + 400 * (at % 2) + 5 * at; slider.dispatchEvent(new Event("input", { bubbles: true }));
    if (await changed) {
      await new Promise(turn => setTimeout(turn)); times.push(performance.now() - began);
      await new Promise(requestAnimationFrame); await new Promise(turn => setTimeout(turn)); frames.push(performance.now() - began);
    }
    await new Promise(rest => setTimeout(rest, 20));
  }
  return { times, frames, longest: Math.max(...tasks) };
}"""
# 200 storages of all sizes in one question to the worker, and the longest task of the page meanwhile.
ASK = """async ([workload, candidates, samples]) => {
  const { askWorker } = await import("/static/model.js"), { ask } = await import("/static/asking.js");
  const about = await ask("/api/load", { workload }), wasm = await (await fetch("/static/model.wasm")).arrayBuffer();
  const engine = askWorker(new Worker("/static/worker.js", { type: "module" }), wasm), times = [], tasks = [];
  await engine(() => [{}]);
  new PerformanceObserver(list => tasks.push(...list.getEntries().map(entry => entry.duration))).observe({ entryTypes: ["longtask"] });
  const storages = Array.from({ length: candidates }, (_, at) => `gp3:${200 + 7 * at}:${3000 + 40 * at}`);
  for (let at = 0; at < samples; at++) {
    const began = performance.now();
    await engine(() => [{ ask: "demand", load: about.load, factor: 1 + at / 50, storages, instance: null, as_of: null, region: "us-east-1", start_balance_percent: null, day_of: null, row_s: null }]);
    times.push(performance.now() - began);
  }
  await new Promise(rest => setTimeout(rest, 100));
  return { times, longest: Math.max(0, ...tasks) };
}"""
# A click on a head of the table, until its rows are others; and words in the filter, until the count is another.
SORT = """async samples => {
  const times = [], heads = [...document.querySelectorAll(".rows .heads button")];
  for (let at = 0; at < samples; at++) {
    const changed = new Promise(done => { const watcher = new MutationObserver(() => { watcher.disconnect(); done(); }); watcher.observe(document.querySelector(".rows .all"), { subtree: true, childList: true, characterData: true, attributes: true }); setTimeout(done, 3000); });
    const began = performance.now();
    heads[at % heads.length].click();
    await changed; times.push(performance.now() - began);
    await new Promise(rest => setTimeout(rest, 50));
  }
  return times;
}"""
FILTER = """async samples => {
  const times = [], box = document.querySelector(".filters input");
  for (let at = 0; at < samples; at++) {
    const changed = new Promise(done => { const watcher = new MutationObserver(() => { watcher.disconnect(); done(); }); watcher.observe(document.querySelector(".fleet [role=status]"), { subtree: true, childList: true, characterData: true }); setTimeout(done, 3000); });
    const began = performance.now();
    box.value = `db ${at + 1}`; box.dispatchEvent(new Event("input", { bubbles: true }));
    await changed; times.push(performance.now() - began);
    await new Promise(rest => setTimeout(rest, 50));
  }
  return times;
}"""
# Frames of a table that is scrolled by half a screen each.
SCROLL = """async samples => {
  const box = document.querySelector(".rows"), times = [];
  let before = await new Promise(requestAnimationFrame);
  for (let at = 0; at < samples; at++) {
    box.scrollTop += 240;
    const now = await new Promise(requestAnimationFrame);
    times.push(now - before); before = now;
  }
  return times;
}"""


class Page:
    """`headrace page` as a user starts it: ms until its address is printed, and the address."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        words = [sys.executable, "-m", "headrace", "page", "--no-open"]
        self.program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.program.stdout is not None
        line = self.program.stdout.readline()
        self.printed_ms = self.since()
        match = re.search(r"http://(127\.0\.0\.1:\d+)/#token=(\S+)", line)
        assert match is not None, line
        self.host, self.token = match[1], match[2]

    def since(self) -> float:
        """ms since the program was started."""
        return 1e3 * (time.perf_counter() - self.began)

    def get(self, path: str) -> int:
        """Fetches a file and returns its status."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def ask_first(self) -> None:
        """Opens the session and asks what a browser asks first."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        usual = {
            "Origin": f"http://{self.host}",
            "Sec-Fetch-Site": "same-origin",
            "Content-Type": "application/json",
            "X-Headrace": "none",
        }
        connection.request("POST", "/session", json.dumps({"token": self.token}), usual)
        opened = connection.getresponse()
        usual |= {
            "X-Headrace": json.loads(opened.read())["key"],
            "Cookie": (opened.getheader("set-cookie") or "").partition(";")[0],
        }
        connection.request("POST", "/api/start", "{}", usual)
        connection.getresponse().read()

    def end(self) -> None:
        """Ends the program."""
        self.program.terminate()
        self.program.wait(30)


def start_program() -> tuple[float, float, float]:
    """Starts the page; ms until its address is printed, a file is served, and the first question is answered."""
    page = Page()
    try:
        page.get("/plan")
        served = page.since()
        page.ask_first()
        return page.printed_ms, served, page.since()
    finally:
        page.end()


class Bench:
    """A browser on the page, and the rows that were measured."""

    def __init__(self, browser: Any, server: Page, samples: int) -> None:
        self.browser, self.server, self.samples = browser, server, samples
        self.has_model = server.get("/static/model.wasm") == 200
        self.cookies: Any = None
        self.rows: list[dict[str, Any]] = []

    def add(self, name: str, bar: float | None, values: list[float], unit: str = "ms") -> None:
        """Adds a row of samples; without any, what was measured failed."""
        ordered = sorted(values)
        spread = (
            {}
            if not ordered
            else {
                "median": statistics.median(ordered),
                "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
                "worst": ordered[-1],
            }
        )
        self.rows.append({"what": name, "bar": bar, "unit": unit, "n": len(ordered), **spread})

    def open(self, address: str, ready: str, lacks: str = "") -> Any:
        """Opens an address in a window of its own. `lacks`: what the browser is made to do without."""
        context = self.browser.new_context(
            viewport={"width": 1400, "height": 900}, storage_state=self.cookies, bypass_csp=True
        )
        page = context.new_page()
        if lacks:
            page.add_init_script(f"delete globalThis.{lacks};")
        token = "" if self.cookies else f"#token={self.server.token}"
        page.goto(f"http://{self.server.host}/{address}{token}")
        page.locator(ready).first.wait_for(timeout=120_000)
        self.cookies = self.cookies or context.storage_state()
        return page

    def first_paint(self) -> None:
        """Measures the first paint, and the bytes that come with it."""
        paints = []
        for _ in range(5):
            page = self.open("studies?study=services-2020", ".bar")
            paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            page.context.close()
        self.add("first paint", BARS["paint"], paints)
        page = self.open("studies?study=services-2020", "footer[data-engine=browser]" if self.has_model else ".bar")
        sizes = page.evaluate(SIZES)
        files = {path: size for path, size in sizes.items() if not path.startswith(("/api", "/session"))}
        model = files.pop("/static/model.wasm", 0)
        self.add("bytes as sent, without the model", BARS["bytes"], [sum(files.values())], "bytes")
        if model:
            self.add("bytes as sent, with the model", BARS["bytes_model"], [sum(files.values()) + model], "bytes")
        page.context.close()

    def sliders(self) -> None:
        """Measures a slider to its chart, in the browser's model and through the server."""
        for words, address, label in (("Database", DATABASE, "IOPS, slider"), ("Replicas", REPLICA, "Clients, slider")):
            if self.has_model:
                page = self.open(address, "footer[data-engine=browser]")
                page.locator(".copy pre").first.wait_for(timeout=120_000)
                self.move(page, label, f"{words}, the browser's model", BARS["slider"])
                page.context.close()
            page = self.open(address, ".copy pre", lacks="WebAssembly")
            self.move(page, label, f"{words}, through the server", BARS["server"])
            page.context.close()

    def move(self, page: Any, label: str, words: str, bar: float) -> None:
        """Moves a slider: how long each step takes, and what it takes of the processors."""
        moved, thread_ms, all_ms = self.spent(page, MOVE, [label, self.samples], self.samples)
        self.add(f"slider to chart, {words}", bar, moved["times"])
        self.add("  until the next frame has left the page's thread", None, moved["frames"])
        self.add("  processor time of a step, the page's thread", None, [thread_ms])
        self.add("  processor time of a step, all of the browser", None, [all_ms])
        self.add("  longest task of the page meanwhile (0: none of 50 ms)", LONG_TASK_MS, [moved["longest"]])

    def spent(self, page: Any, script: str, given: Any, steps: int) -> tuple[Any, float, float]:
        """Runs a script of so many steps: its answer, and the processor time of a step in ms, of the page's thread and of all processes of
        the browser. Processor time hangs less on the load of the machine than a time does."""
        session, program = page.context.new_cdp_session(page), self.browser.new_browser_cdp_session()
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = self.processor_s(session, program)
        answer = page.evaluate(script, given)
        after = self.processor_s(session, program)
        thread_ms, all_ms = (1e3 * (after[place] - before[place]) / steps for place in range(2))
        return answer, thread_ms, all_ms

    @staticmethod
    def processor_s(session: Any, program: Any) -> tuple[float, float]:
        """Processor time so far, s: of the page's thread, and of all processes of the browser."""
        figures = {row["name"]: row["value"] for row in session.send("Performance.getMetrics")["metrics"]}
        processes = program.send("SystemInfo.getProcessInfo")["processInfo"]
        return figures["TaskDuration"], sum(process["cpuTime"] for process in processes)

    def candidates(self) -> None:
        """Measures 200 candidates of a day in the browser's worker."""
        page = self.open(PLAN, "footer[data-engine=browser]")
        page.locator(".copy pre").first.wait_for(timeout=120_000)
        questions = max(10, self.samples // 4)
        answer, thread_ms, all_ms = self.spent(page, ASK, ["demo:day", CANDIDATES, questions], questions)
        self.add(f"{CANDIDATES} candidates, a day of one-minute points", BARS["candidates"], answer["times"])
        self.add("  processor time of a question, the page's thread", None, [thread_ms])
        self.add("  processor time of a question, all of the browser", None, [all_ms])
        self.add("  longest task of the page meanwhile (0: none of 50 ms)", LONG_TASK_MS, [answer["longest"]])
        page.context.close()

    def fleet(self) -> None:
        """Measures a fleet's table: sorted, filtered, scrolled."""
        page = self.open("fleet", ".drop")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "fleet.json")
            file.write_text(json.dumps(fleet_rows(DEVICES)))
            page.locator("input[type=file]").first.set_input_files(file)
            page.locator("[role=grid]").wait_for(timeout=120_000)
        page.wait_for_timeout(1_000)
        self.add("10,000 rows sorted, click to DOM", BARS["sort"], page.evaluate(SORT, self.samples))
        filtered, thread_ms, _ = self.spent(page, FILTER, self.samples, self.samples)
        self.add("10,000 rows filtered, key to DOM", BARS["filter"], filtered)
        self.add("  processor time of a key, the page's thread", None, [thread_ms])
        self.add("10,000 rows scrolled, a frame", 32, page.evaluate(SCROLL, 2 * self.samples))
        page.context.close()


def show(console: Console, rows: list[dict[str, Any]]) -> None:
    """Prints the rows."""
    table = Table("what", "bar", "unit", "n", "median", "p95", "worst", title="The page in Chromium")
    for row in rows:
        figures = (
            (
                f"{row[name]:,.0f}" if row["unit"] == "bytes" else f"{row[name]:,.1f}"
                for name in ("median", "p95", "worst")
            )
            if row["n"]
            else ("no sample",)
        )
        table.add_row(
            row["what"], "" if row["bar"] is None else f"{row['bar']:,}", row["unit"], str(row["n"]), *figures
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--samples", type=int, default=40, help="movements of a slider and clicks on a head")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    given = parser.parse_args()
    console = Console(width=160)
    if missing := lacking():
        console.print(f"The page was not measured: {missing}")
        return 0
    load = os.getloadavg()[0]
    starts = [start_program() for _ in range(STARTS)]
    server = Page()
    try:
        measure(server, given.samples, starts, console, given.json)
    finally:
        server.end()
    console.print(f"{os.cpu_count()} processors, load {load:.1f} before, {os.getloadavg()[0]:.1f} after")
    return 0


def measure(
    server: Page, samples: int, starts: list[tuple[float, float, float]], console: Console, file: Path | None
) -> None:
    """Measures the page of a server, and prints and writes the rows."""
    with launched() as browser:
        bench = Bench(browser, server, samples)
        for place, name in enumerate(("address printed", "page served", "first question answered")):
            bench.add(f"headrace page, {name}", BARS["start"], [start[place] for start in starts])
        bench.first_paint()
        bench.sliders()
        if bench.has_model:
            bench.candidates()
        else:
            console.print("The model for browsers is not built here: make model")
        bench.fleet()
        show(console, bench.rows)
        console.print(f"Chromium {browser.version}")
        if file:
            file.write_text(json.dumps(bench.rows, indent=1))


if __name__ == "__main__":
    raise SystemExit(main())
