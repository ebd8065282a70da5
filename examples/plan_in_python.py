"""Plan a day, simulate the winner and today's volume, and compare them: what `headrace plan --compare` does, step by step.

.venv/bin/python examples/plan_in_python.py
"""

from pathlib import Path

import polars as pl

import headrace

day = headrace.load_demand(Path(__file__).with_name("innodb-tpcc-day.toml"))
print(day.describe())

plan = headrace.plan(day, goals=["p99_ms<=20", "throttled_min<=0", "headroom_percent>=30"], compare="gp2:500")
winner = plan.recommended
print(f"\nRecommended: {winner.place}. {plan.choices.why_recommended}")
print(f"\n{winner.storage}: {winner.cost_usd_month:.2f} USD a month, head-room {winner.headroom_percent:.0f} %")
for item in winner.items:
    print(
        f"  {item['item']}: {item['quantity']:g} {item['unit']} at {item['unit_price_usd']:g} USD ({item['source']}, {item['as_of']})"
    )

for storage in (winner.storage, "gp2:500"):
    run = headrace.simulate(day, storage)
    hours = run.rows.group_by((pl.col("t_s") // 3600).cast(pl.Int64).alias("hour"), maintain_order=True).agg(
        pl.col("iops").mean().round(0),
        pl.col("throttled_s").sum().alias("throttled_s"),
        pl.col("p99_ms").max().round(2),
    )
    print(f"\n{storage}: throttled {run.summary['throttled_s'] / 60:.0f} minutes")
    print(hours.filter(pl.col("hour").is_in([3, 9, 15])))
