"""`python -m runner VERB` is `dmalab VERB`."""

import sys


def main() -> None:
    """Run the command line and exit; an interrupt is no traceback, not even while the modules are still being read."""
    try:
        # First of all: what a device needs is read by another process beside what the command line needs.
        from runner.execution.ready import make_ready

        make_ready(sys.argv[1:])
        from runner import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
