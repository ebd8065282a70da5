"""What is known of a server, its volumes and its host: one value, whatever gave it.

model     Tick (a second), Evidence (frames), the facts of volumes, server and source
limits    the limits that hold for a storage on its instance
live      LiveSource: lab and server, a tick a second; `collect` makes evidence of it
volumes   readers of volumes: the lab's rows, the statistics page, the kernel's counters
server    reader of a server: one statement a second; counters: its counters as rates
aws       describe-volumes and CloudWatch
files     captured folders; recordings of iostat, sar, vmstat, CloudWatch, Prometheus
evidence_file   evidence saved and read back
sources   from what a user types to all of these
"""

from headrace.operate.evidence.limits import HoldingLimits, holding
from headrace.operate.evidence.live import LiveSource, collect
from headrace.operate.evidence.model import (
    Evidence,
    SeenServer,
    SeenVolume,
    SourceFacts,
    Tick,
    VolumeEvidence,
    gathered,
)
from headrace.operate.evidence.sources import (
    SourceOptions,
    check_times,
    described_by,
    evidence_of,
    import_options,
    is_live,
    load_target,
    open_live,
)

__all__ = [
    "Evidence",
    "HoldingLimits",
    "LiveSource",
    "SeenServer",
    "SourceFacts",
    "SourceOptions",
    "Tick",
    "VolumeEvidence",
    "SeenVolume",
    "check_times",
    "collect",
    "described_by",
    "evidence_of",
    "gathered",
    "holding",
    "is_live",
    "load_target",
    "open_live",
    "import_options",
]
