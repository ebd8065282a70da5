"""Says which extra of `pip install headrace[...]` brings a module that is missing.

A plan and a simulation need none of them; their pages need `charts`. The table is the only place
that knows the extras; `tests/unit/base/test_extras.py` holds it to pyproject.toml.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import CouldNotRun, Refusals

refuse = Refusals("README.md, Install")
# Top-level module -> the extra that brings it, and the work it does.
EXTRAS = {
    "scipy": ("calibrate", "fits of databases, trends and comparisons"),
    "altair": ("charts", "pages and charts"),
    "vl_convert": ("charts", "pages and charts"),
    "duckdb": ("sql", "SQL over stored benchmark runs"),
    "pymysql": ("lab", "connections to MySQL servers"),
    "cbor2": ("lab", "the AWS endpoint of the lab"),
    "httptools": ("lab", "the AWS endpoint and the metrics of the lab"),
    "prometheus_client": ("lab", "metrics for Prometheus"),
    "boto3": ("aws", "calls of AWS"),
    "botocore": ("aws", "calls of AWS"),
    "hcl2": ("terraform", "Terraform files"),
    "opentelemetry": ("otlp", "metrics by OpenTelemetry"),
    "ray": ("ray", "fleets past one machine"),
    "starlette": ("page", "the page"),
    "uvicorn": ("page", "the page"),
}


def explain_missing(error: ImportError) -> CouldNotRun | None:
    """Returns the refusal that names the extra for a missing optional module, None for any other
    error.

    A module that exists but cannot be loaded (a broken installation) raises another ImportError,
    which is not explained.
    """
    module = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or module not in EXTRAS:
        return None
    extra, work = EXTRAS[module]
    return refuse.run(module, f"is not installed; {work} need it", f"pip install 'headrace[{extra}]'")


@contextmanager
def import_optional() -> Iterator[None]:
    """Turns the failure of an import in the block, for lack of an extra, into CouldNotRun, which
    names the extra.

    with import_optional():
        from scipy.optimize import least_squares
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise explain_missing(error) or error from None
