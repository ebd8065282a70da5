"""Results as large or as small as a test wants them, that the page can be given."""

from __future__ import annotations

import random

from headrace.experiment.proof import MeasuredResult, PredictedResult, Proof, Step
from headrace.experiment.request import Configuration

TYPES = ("gp2:500", "io1:400:8000", "gp3:200:4800", "st1:2000")


def fleet_rows(count: int) -> list[dict]:
    """Answers for devices in random order of savings, as `headrace fleet plan --output json` prints them."""
    rng = random.Random(count)
    rows = []
    for number in range(count):
        verdict = rng.choice(("change", "change", "grow", "keep", "withheld", "unused"))
        proposed = {"change": rng.uniform(1, 49), "grow": rng.uniform(51, 99)}.get(verdict)
        bills = {} if proposed is None else {"usd_today": 50.0, "usd_proposed": round(proposed, 2)}
        money = bills or ({"usd_today": 50.0} if verdict == "unused" else {})
        rows.append(
            {"key": f"vol-{number:017x}", "volumes": [f"vol-{number:017x}"], "account": "123456789012", "region": "us-east-1", "instance": "",
             "verdict": verdict, "why": "it fits", "today": rng.choice(TYPES), "proposed": "gp3:500" if bills else "", "risk": rng.random() if bills else None,
             "name": f"db {number}", "prices": "list prices", "proposed_p99_ms": 1.5 if bills else None} | money
        )  # fmt: skip
    return rows


def proof(name: str = "20261128-100000-abcd", measured_tps: float = 98.0) -> Proof:
    """A proof of two configurations, one of them calibrated on."""
    full, small = Configuration("winner", "gp3:500:6000", 25.0, 16), Configuration("winner", "gp3:50:600", 2.5, 16)
    predicted = PredictedResult(
        100.0, 95.0, 105.0, 50.0, 20.0, "volume-iops", (), tuple(float(90 + at % 20) for at in range(70))
    )
    measured = MeasuredResult(
        "run", "complete", 60.0, measured_tps, 52.0, 20.5, (), tuple(float(88 + at % 20) for at in range(70))
    )
    steps = (Step("calibration", full, small, None, measured), Step("winner", full, small, predicted, measured))
    return Proof(
        name=name, folder="/p", state="complete", began_at="2026-11-28T10:00:00+00:00", source="shop", engine="innodb", server="MariaDB 10.11",
        load="sysbench", data_gib=1.0, data_scale=0.1, rate_scale=0.1, warmup_s=10, seconds=60, seed=1, steps=steps, machine={"cpus": 2},
    )  # fmt: skip
