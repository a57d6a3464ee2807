"""The container's files agree with each other, with setup.sh and with the Makefile. Nothing is built here."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
DEVCONTAINER = ROOT / ".devcontainer" / "devcontainer.json"


def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions and their arguments, continued lines joined and comments left out."""
    lines = [line for line in (ROOT / "Containerfile").read_text().splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def arguments(instruction: str) -> list[str]:
    return [rest for name, rest in instructions() if name == instruction]


def commands() -> list[list[str]]:
    """The words of every command that the build runs."""
    return [shlex.split(command) for run in arguments("RUN") for command in run.split("&&")]


def venv() -> str:
    (path,) = re.findall(r"VENV \?= (\S+?)\\n", " ".join(arguments("RUN")))
    return str(path)


def devcontainer() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(DEVCONTAINER.read_text())
    return content


def packages_of_setup() -> set[str]:
    """The Debian packages that setup.sh may install."""
    text = (ROOT / "setup.sh").read_text()
    return set(re.findall(r"[\w\"$]+:([a-z][\w.-]+)", text)) | set(re.findall(r'missing="\$missing ([a-z][\w.-]+)"', text))


def test_the_base_is_one_release_of_debian_and_can_be_replaced() -> None:
    assert arguments("FROM") == ["${BASE}"]
    (base,) = (rest for rest in arguments("ARG") if rest.startswith("BASE="))
    assert re.fullmatch(r"BASE=docker\.io/library/debian:12(\.\d+)?", base)


def test_the_build_installs_only_what_setup_does_not() -> None:
    assert {"gcc", "mininet", "bubblewrap", "iproute2", "libc6-dev", "python3-venv"} <= packages_of_setup()
    installed = [words for words in commands() if "apt-get" in words and "install" in words]
    named = {word for words in installed for word in words[words.index("install") + 1 :] if not word.startswith("-")}
    assert named == {"git", "make"}
    assert not named & packages_of_setup()
    assert not any("pip" in words for words in commands())


def test_set_up_is_done_by_make_as_root_before_the_ordinary_user_takes_over() -> None:
    names = [name for name, _ in instructions()]
    (setup,) = (i for i, (name, rest) in enumerate(instructions()) if name == "RUN" and "make setup" in rest)
    assert names.index("COPY") < setup < names.index("USER")
    assert arguments("USER") == ["inalab"]
    assert any(words[0] == "useradd" and words[-1] == "inalab" for words in commands())


def test_the_default_command_is_a_target_of_the_makefile() -> None:
    assert [json.loads(rest) for rest in arguments("CMD")] == [["make", "experiment"]]
    assert re.search(r"^experiment:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f"PATH={venv()}/bin:$PATH" in arguments("ENV")


def test_a_build_leaves_out_results_environments_and_history() -> None:
    ignored = (ROOT / ".containerignore").read_text()
    assert {".git", ".venv", "results/*"} <= set(ignored.splitlines())
    assert (ROOT / ".dockerignore").read_text() == ignored


def test_editors_build_from_the_containerfile_and_find_its_python() -> None:
    settings = devcontainer()
    build = settings["build"]
    assert (DEVCONTAINER.parent / build["dockerfile"]).resolve() == (ROOT / "Containerfile").resolve()
    assert (DEVCONTAINER.parent / build["context"]).resolve() == ROOT.resolve()
    assert settings["remoteUser"] == "inalab"
    assert settings["privileged"] is True
    assert settings["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"] == f"{venv()}/bin/python"


def test_an_editor_sets_up_its_own_copy_of_the_repository() -> None:
    """The image has inalab installed from the copy in it; a workspace lies elsewhere, and without -B make would see nothing to do."""
    assert devcontainer()["postCreateCommand"] == "make -B setup"


@pytest.mark.parametrize("option", ["--security-opt unmask=ALL", "-v /sys:/sys"])
def test_the_containerfile_and_its_page_name_the_same_privileges(option: str) -> None:
    for file in ("Containerfile", "docs/how-to/containers.md"):
        assert option in (ROOT / file).read_text(), file
