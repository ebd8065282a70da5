"""Optional packages: a plan needs none, and what needs one says which extra brings it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest
from places import ROOT

from headrace.base.extras import EXTRAS, explain_missing, import_optional
from headrace.errors import CouldNotRun

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Distribution that brings a module, where its name is another than the module's.
DISTRIBUTIONS = {"vl_convert": "vl-convert-python", "prometheus_client": "prometheus-client", "hcl2": "python-hcl2",
                 "opentelemetry": "opentelemetry-exporter-otlp-proto-http", "botocore": "boto3"}  # fmt: skip
# Runs a command in a Python that has none of the optional modules: None in sys.modules is how Python says "not there".
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({list(EXTRAS)!r})); from headrace.cli.main import main; sys.exit(main(sys.argv[1:]))"


def run_without(*arguments: str, folder) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments], cwd=folder, capture_output=True, text=True, timeout=600
    )


def test_each_module_is_brought_by_its_extra_and_by_no_plain_installation():
    plain = {re.split(r"[<>=\[]", line)[0] for line in PROJECT["dependencies"]}
    for module, (extra, _) in EXTRAS.items():
        distribution = DISTRIBUTIONS.get(module, module)
        listed = {re.split(r"[<>=\[]", line)[0] for line in PROJECT["optional-dependencies"][extra]}
        assert distribution in listed, (module, extra)
        assert distribution not in plain, module


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "demo:day"),
        ("plan", "sysbench-tpcc:warehouses=100,cache_gib=4,threads=16", "--goal", "tps>=100", "--instances", "none"),
        ("simulate", "demo:hour", "--storage", "gp2:500"),
        ("workload", "import", str(ROOT / "examples/iostat.txt"), "--to", "mysql.toml"),
        ("advise", "--storage", "gp3:500", "--memory-gib", "32"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_plan_needs_no_extra(tmp_path, arguments):
    done = run_without(*arguments, folder=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert "is not installed" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("calibrate", str(ROOT / "examples/tpcc-run.toml"), "-o", "shop.toml"), "calibrate"),
        (("forecast", str(ROOT / "examples/forecast/used.csv"), "--storage", "gp3:500"), "calibrate"),
        (("simulate", "demo:hour", "--storage", "gp2:500", "--report", "day.png"), "charts"),
        (("plan", "demo:day", "--report", "plan.html"), "charts"),
        (("doctor", "mysql://someone@127.0.0.1:1/"), "lab"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_needs_an_extra_names_it(tmp_path, arguments, extra):
    done = run_without(*arguments, folder=tmp_path)
    assert done.returncode == CouldNotRun.default_exit_code, done.stdout + done.stderr
    assert f"pip install 'headrace[{extra}]'" in done.stderr and "this is a bug" not in done.stderr
    assert not list(tmp_path.iterdir()), "nothing is written by a command that could not run"


def test_only_a_module_that_is_missing_is_explained():
    assert explain_missing(ImportError("broken", name="scipy")) is None
    assert explain_missing(ModuleNotFoundError("other", name="nothing_of_ours")) is None
    with pytest.raises(CouldNotRun, match="headrace\\[calibrate\\]"), import_optional():
        raise ModuleNotFoundError(name="scipy")
    with pytest.raises(ModuleNotFoundError), import_optional():
        raise ModuleNotFoundError(name="nothing_of_ours")
