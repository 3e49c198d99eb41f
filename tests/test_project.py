"""The laws of the project that no tool of its own watches over."""

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel, Field

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("bfcl.txt", "build.txt", "dev.txt", "runtime.txt", "smollm2.txt")

# Written in pieces, so that this file keeps the law that it states.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("deb", "debian", "org"),
    )
)
MACHINE_PATH = re.compile(r"(?<![\w.}])/" + "(?:" + "|".join(("work", "root", r"home/\w+")) + ")/")


class Project(BaseModel):
    """The part of pyproject.toml's `[project]` that the laws speak of."""

    version: str
    dependencies: list[str]
    extras: dict[str, list[str]] = Field(alias="optional-dependencies", default_factory=dict)


@cache
def project() -> Project:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return Project.model_validate(document["project"])


@cache
def tracked_texts() -> dict[str, str]:
    """Path and text of each text file that is, or is about to be, in the repository."""
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("this folder is not a git checkout")
    texts: dict[str, str] = {}
    for name in filter(None, listing.stdout.decode().split("\0")):
        path = ROOT / name
        data = path.read_bytes() if path.is_file() else b""
        if b"\0" not in data:
            texts[name] = data.decode("utf-8")
    return texts


def locked_versions(lock: str) -> dict[str, set[str]]:
    """Exact versions by package name; more than one where the Python version decides."""
    versions: dict[str, set[str]] = {}
    for line in (ROOT / "locks" / lock).read_text(encoding="utf-8").splitlines():
        if found := re.match(r"([A-Za-z0-9._-]+)==(\S+)", line):
            versions.setdefault(canonicalize_name(found[1]), set()).add(found[2])
    return versions


def outline(page: str) -> tuple[list[int], int]:
    """Levels of the headings of a Markdown page, in order, and how many code blocks it has."""
    levels: list[int] = []
    blocks, in_block = 0, False
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("```"):
            in_block = not in_block
            blocks += in_block
        elif not in_block and (heading := re.match(r"(#{1,6}) ", line)):
            levels.append(len(heading[1]))
    return levels, blocks


@pytest.mark.parametrize("host", REGISTRY_HOSTS)
def test_no_file_names_the_host_of_a_package_registry(host: str) -> None:
    assert [name for name, text in tracked_texts().items() if host in text] == []


def test_no_file_names_a_path_of_one_machine() -> None:
    found = {
        name: match.group()
        for name, text in tracked_texts().items()
        if (match := MACHINE_PATH.search(text))
    }
    assert found == {}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / "locks" / lock).read_text(encoding="utf-8")

    assert "://" not in text
    assert not re.search(r"^(?:-|\S+ @ )", text, flags=re.MULTILINE)
    for block in re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in block, block.partition("\n")[0]


@pytest.mark.parametrize("lock", ["build.txt", "runtime.txt"])
def test_the_dev_lock_holds_the_smaller_ones_version_for_version(lock: str) -> None:
    assert locked_versions(lock).items() <= locked_versions("dev.txt").items()


def test_dependencies_are_ranges_that_the_lock_satisfies() -> None:
    locked = locked_versions("runtime.txt")
    for text in project().dependencies:
        requirement = Requirement(text)
        operators = {specifier.operator for specifier in requirement.specifier}
        assert operators == {">=", "<"}, f"{text}: a lower and an upper bound, no exact pin"
        for version in locked[canonicalize_name(requirement.name)]:
            assert version in requirement.specifier


def test_every_room_and_every_folder_with_python_in_it_is_a_package() -> None:
    source = ROOT / "src" / "hermes"
    rooms = {path for path in source.iterdir() if path.is_dir() and path.name != "__pycache__"}
    folders = rooms | {path.parent for path in source.rglob("*.py")}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_both_readmes_have_the_same_outline() -> None:
    assert outline("README.md") == outline("README.zh-CN.md")


def test_the_changelog_speaks_of_the_present_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[([^\]]+)\]", text, flags=re.MULTILINE)
    assert {"Unreleased", project().version} & set(headings)


def test_types_are_shipped() -> None:
    assert (ROOT / "src" / "hermes" / "py.typed").is_file()
