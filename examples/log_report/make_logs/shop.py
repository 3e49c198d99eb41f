"""The web shop of make_logs.py: a real nginx on a fake clock, and the things that go wrong."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from backends import Backend, Mood
from visitors import Visitors

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

PREFIX = Path("/srv/shop")
LOG = PREFIX / "logs/error.log"
_HERE = Path(__file__).parent
_CLOCK_FILE = PREFIX / "run/clock"
_DEADLINE_S = 10
_LOCKED = "css/release-2026.11.css"


class Shop:
    """nginx under `/srv/shop` with its backends; the folder exists only in this namespace."""

    def __init__(self, *, faketime_library: Path, random: Random) -> None:
        self.visitors = Visitors(random=random)
        self.apps = [Backend(("10.20.0.11", 8080)), Backend(("10.20.0.12", 8080))]
        self.stock = Backend(("10.20.0.21", 8080))
        self.payment = Backend(("10.20.0.31", 8443))
        self.php = Backend(str(PREFIX / "run/php.sock"), php=True)
        self._environment = {
            "PATH": os.environ["PATH"],
            "TZ": "UTC",
            "LD_PRELOAD": str(faketime_library),
            "FAKETIME_TIMESTAMP_FILE": str(_CLOCK_FILE),
            "FAKETIME_NO_CACHE": "1",
            # Timeouts run on the monotonic clock; only the written time is fake.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self._random = random

    @contextmanager
    def open(self) -> Generator[None]:
        """Start everything; stop it at the end."""
        for backend in (*self.apps, self.stock, self.payment, self.php):
            backend.start()
        # A user id other than 0 and no capabilities: file modes count for nginx.
        user = ["unshare", "--user", "--map-user=33", "--map-group=33"]
        nginx = subprocess.Popen(
            [*user, "nginx", "-p", str(PREFIX), "-e", str(LOG), "-c", "conf/nginx.conf"]
            + ["-g", "daemon off;"],
            env=self._environment,
        )
        try:
            _wait_for(lambda: LOG.exists() and "start worker process" in LOG.read_text(), "nginx")
            yield
        finally:
            nginx.send_signal(signal.SIGQUIT)
            nginx.wait(_DEADLINE_S)

    def with_mood(self, mood: Mood, path: str) -> None:
        """Ask for `path` while one application server, or the stock server, misbehaves."""
        backend = self.stock if path.startswith("/stock/") else self._random.choice(self.apps)
        backends = [backend] if backend is self.stock else self.apps
        for each in backends:
            each.mood = mood
        self.visitors.get(path)
        for each in backends:
            each.mood = "ok"

    def stop_apps(self) -> None:
        """Both application servers go down."""
        for app in self.apps:
            app.stop()

    def start_apps(self) -> None:
        """Both application servers are back."""
        for app in self.apps:
            app.start()

    def restart_php(self) -> None:
        """PHP listens again on its socket, which a crash had removed."""
        self.php.start()

    def fill_disk(self) -> None:
        """Fill the small spool disk to the last block."""
        with (PREFIX / "spool/backup.tar").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def free_disk(self) -> None:
        """Remove what filled the disk."""
        (PREFIX / "spool/backup.tar").unlink()

    def lock_files(self) -> None:
        """Deploy a style sheet with a mode that nobody can read."""
        (PREFIX / "html" / _LOCKED).chmod(0)

    def unlock_files(self) -> None:
        """Repair the mode."""
        (PREFIX / "html" / _LOCKED).chmod(0o644)

    def reload(self) -> None:
        """Reload a good configuration."""
        self._signal_master("start worker process")

    def reload_broken(self) -> None:
        """Reload a configuration with a misspelled directive; nginx keeps the old one."""
        path = PREFIX / "conf/nginx.conf"
        good = path.read_text()
        path.write_text(good.replace("proxy_pass http://10.20.0.21", "proxy_pas http://10.20.0.21"))
        self._signal_master("unknown directive")
        path.write_text(good)

    def kill_worker(self) -> None:
        """Kill one worker, as the kernel does when memory ends."""
        before = LOG.read_text().count("exited on signal")
        worker = _children(_master())[0]
        os.kill(worker, signal.SIGKILL)
        _wait_for(lambda: LOG.read_text().count("exited on signal") > before, "a dead worker")
        _wait_for(lambda: len(_children(_master())) == 2, "a new worker")

    def _signal_master(self, expected: str) -> None:
        before = LOG.read_text().count(expected)
        os.kill(_master(), signal.SIGHUP)
        _wait_for(lambda: LOG.read_text().count(expected) > before, expected)


def build() -> None:
    """Lay out `/srv/shop`: files, configuration, certificate, and the tiny spool disk."""
    for folder in ("conf", "logs", "run", "spool", "html/css", "img", "php"):
        (PREFIX / folder).mkdir(parents=True)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "tmpfs", str(PREFIX / "spool")],
        check=True,
    )
    shutil.copy(_HERE / "nginx.conf", PREFIX / "conf/nginx.conf")
    (PREFIX / "conf/staff").write_text("editor:{PLAIN}correct horse\n")
    (PREFIX / "html/index.html").write_text("<h1>Shop</h1>\n")
    (PREFIX / "html" / _LOCKED).write_text("body {}\n")
    subject = ["-subj", "/CN=shop.example", "-days", "400", "-nodes", "-newkey", "rsa:2048"]
    files = ["-keyout", str(PREFIX / "conf/shop.key"), "-out", str(PREFIX / "conf/shop.crt")]
    subprocess.run(
        ["openssl", "req", "-x509", *subject, *files], check=True, stderr=subprocess.DEVNULL
    )


def set_clock(instant: float) -> None:
    """Write the difference between the fake and the real time where libfaketime reads it."""
    _CLOCK_FILE.write_text(f"{instant - time.time():+.3f}\n")


def _master() -> int:
    return int((PREFIX / "run/nginx.pid").read_text())


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _wait_for(is_done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not is_done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not show in {LOG} within {_DEADLINE_S} s")
        time.sleep(0.01)
