"""The lab: block devices of this machine that perform like EBS volumes, served by the daemon
headraced.

Linux only for `launch` and what it starts; importing works anywhere.
"""

import lazy_loader

# The public names and where they live stand in __init__.pyi: `--help` of a command imports none of
# them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
