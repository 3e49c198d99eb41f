"""`python -m hermes` is the `hermes` command."""

from hermes.cli import main

if __name__ == "__main__":
    main()
