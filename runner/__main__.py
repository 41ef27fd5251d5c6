"""`python -m runner VERB` is `dmalab VERB`."""

import os
import sys


def main() -> None:
    """Run the command line and exit; an interrupt is no traceback, not even while the modules are still being read."""
    try:
        _fill_standard_descriptors()
        # First of all: what a device needs is read by another process beside what the command line needs.
        from runner.execution.ready import make_ready

        make_ready(sys.argv[1:])
        from runner import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)


def _fill_standard_descriptors() -> None:
    """Let 0, 1 and 2 be open: where one is not, the next file has its number, and gets what libraries and children print."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        os.set_inheritable(descriptor, True)
        descriptor = os.dup(descriptor)
    os.close(descriptor)


if __name__ == "__main__":
    main()
