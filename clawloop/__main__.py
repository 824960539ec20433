"""`python -m clawloop`."""

from clawloop.cli import main

if __name__ == "__main__":
    main()
