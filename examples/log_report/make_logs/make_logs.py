"""Make `../logs/error.log`: the real error log of a real nginx that is driven into faults.

Nothing in that file is invented. This script starts nginx (Debian: `apt-get install nginx
faketime openssl iproute2`) without privileges, in namespaces of its own (`unshare`): `/srv/shop`
exists only there, and its network is one loopback device, on which the documentation addresses
of RFC 5737 stand for clients and 10.20.0.0/24 for the application servers. Nothing can leave it.

Then it plays `timetable.py`: real requests of `visitors.py` against nginx, whose backends
(`backends.py`) refuse, hang, reset or talk nonsense, while files are missing or unreadable, a
disk of two megabytes is full, a reload is broken and a worker is killed. libfaketime moves the
clock that nginx writes from event to event through 2026-11-28 and 2026-11-29; timeouts run on
the real, monotonic clock, so the whole takes about two minutes.

Usage: python make_logs.py [FILE]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import timetable
from shop import LOG, Shop, build, set_clock

_DEFAULT_LOG = Path(__file__).parent.parent / "logs/error.log"
_NEEDED = ("nginx", "openssl", "unshare", "ip", "mount")
_MAX_LOG_BYTES = 1_500_000
_SEED = 20261128
# Some clients leave before nginx has written its line: let it, before the clock moves on.
_BREATH_S = 0.006


def main(arguments: list[str]) -> int:
    """Run in fresh namespaces (first call) or play the two days (the call inside them)."""
    if arguments[:1] == ["--inside"]:
        return _play(Path(arguments[1]))
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    missing = [name for name in _NEEDED if shutil.which(name, path=_path()) is None]
    if library is None:
        missing.append("libfaketime")
    if missing:
        print(f"missing: {', '.join(missing)}; on Debian: ", end="", file=sys.stderr)
        print("apt-get install nginx faketime openssl iproute2 util-linux", file=sys.stderr)
        return 2
    target = Path(arguments[0] if arguments else _DEFAULT_LOG).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    namespaces = ["--user", "--map-root-user", "--mount", "--net", "--pid", "--fork"]
    command = ["unshare", *namespaces, "--kill-child", "--mount-proc", sys.executable, __file__]
    environment = {
        "PATH": _path(),
        "FAKETIME_LIBRARY": str(library),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.call([*command, "--inside", str(target)], env=environment)


def _path() -> str:
    return os.environ["PATH"] + ":/usr/sbin:/sbin"


def _play(target: Path) -> int:
    random = Random(_SEED)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/srv"], check=True)
    _prepare_kernel()
    build()
    happenings = timetable.events(random)
    set_clock(happenings[0][0])
    shop = Shop(faketime_library=Path(os.environ["FAKETIME_LIBRARY"]), random=random)
    with shop.open():
        beginning = LOG.stat().st_size  # the lines before name the kernel of this machine
        for number, (instant, act) in enumerate(happenings):
            set_clock(instant)
            act(shop)
            time.sleep(_BREATH_S)
            if number % 500 == 0:
                print(f"{number} of {len(happenings)} events, {LOG.stat().st_size} bytes")
        log = LOG.read_bytes()[beginning:]  # without the shutdown, which has a later time
    if len(log) > _MAX_LOG_BYTES:
        print(f"the log has {len(log)} bytes, more than {_MAX_LOG_BYTES}", file=sys.stderr)
        return 1
    target.write_bytes(log)
    print(f"wrote {target}: {len(log.splitlines())} lines")
    return 0


def _prepare_kernel() -> None:
    """Bring up the private loopback network and let nginx have the low ports."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for network in ("203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24", "10.20.0.0/24"):
        subprocess.run(["ip", "route", "add", "local", network, "dev", "lo"], check=True)
    subprocess.run(["ip", "route", "add", "unreachable", "10.20.9.0/24"], check=True)
    Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")
    # Process ids of a machine that has been up for a while, not of a fresh namespace.
    Path("/proc/sys/kernel/ns_last_pid").write_text("1180")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
