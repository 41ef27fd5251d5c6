"""`python -m runner VERB` is `dmalab VERB`."""

from runner.cli import main

if __name__ == "__main__":
    main()
