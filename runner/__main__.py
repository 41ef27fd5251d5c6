"""`python -m runner VERB` is `dmalab VERB`."""

import sys


def main() -> None:
    """Run the command line and exit; an interrupt is no traceback, not even while the modules are still being read."""
    try:
        from runner import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
