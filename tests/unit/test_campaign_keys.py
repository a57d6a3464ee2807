"""Keys of a campaign's machines, addresses of schedulers, and what is told of one that has other keys, or none."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from inalab.testbed.campaign import scheduler as schedulers
from inalab.testbed.campaign.keys import Keys, make
from inalab.testbed.campaign.machines import MachinesError
from inalab.testbed.campaign.scheduler import AbsentError, Scheduler, scheduler_at
from tests.command_line import inalab

DOCUMENT = Path("docs/how-to/campaigns.md")


def test_the_documents_job_for_slurm_starts_a_worker_on_its_cores(tmp_path: Path) -> None:
    """What it does was tried with Slurm 22.05: two jobs, one of which was cancelled."""
    lines = DOCUMENT.read_text().split("    #!/bin/bash\n")[1].split("\n\n")[0].splitlines()
    (tmp_path / "workers.sh").write_text("\n".join(["#!/bin/bash", *(line.removeprefix("    ") for line in lines)]) + "\n")
    command = tmp_path / ".venv/bin/inalab"
    command.parent.mkdir(parents=True)
    command.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    command.chmod(0o755)
    job = ["bash", "workers.sh", "tls://login:8786"]
    said = subprocess.run(job, cwd=tmp_path, env={"SLURM_CPUS_PER_TASK": "2"}, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["campaign", "worker", "tls://login:8786", "--cores", "2"] and not said.stderr
    assert "--cores" in inalab("campaign", "worker", "--help", env={"COLUMNS": "200"}).stdout
    assert all(line.startswith(("    #SBATCH --", "    exec ")) for line in lines)


# --- keys


def test_keys_are_this_users_alone_and_never_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "keys"
    made = inalab("campaign", "keys", "--keys", str(folder))
    assert made.returncode == 0 and str(folder) in made.stdout
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()} == dict.fromkeys(
        ("ca.pem", "cert.pem", "key.pem"), 0o600
    )
    before = {file: file.read_bytes() for file in folder.iterdir()}
    refused = inalab("campaign", "keys", "--keys", str(folder))
    assert refused.returncode == 1 and "ca.pem is there already: delete the folder first" in refused.stderr
    assert {file: file.read_bytes() for file in folder.iterdir()} == before
    assert Keys(folder).checked() == Keys(folder)


def test_keys_that_cannot_be_used_are_refused_in_one_sentence(tmp_path: Path) -> None:
    def refused(folder: str, wording: str) -> None:
        with pytest.raises(MachinesError, match=wording) as error:
            Keys(tmp_path / folder).checked()
        assert len(str(error.value).splitlines()) == 1

    make(tmp_path / "one"), make(tmp_path / "two")
    refused("none", r"none/cert\.pem is missing: make keys with `inalab campaign keys` and copy them to every machine")
    make(tmp_path / "expired", -1)
    refused("expired", r"were valid until \d{4}-\d\d-\d\d: make new ones with `inalab campaign keys`")
    (tmp_path / "one/key.pem").chmod(0o640)
    refused("one", r"others can read .*key\.pem: chmod 600 ")
    (tmp_path / "one/key.pem").chmod(0o600)
    for file in ("key.pem", "ca.pem"):
        make(tmp_path / f"mixed {file}")
        (tmp_path / f"mixed {file}" / file).write_bytes((tmp_path / "two" / file).read_bytes())
    refused("mixed key.pem", "do not belong together")
    refused("mixed ca.pem", "do not belong together")
    (tmp_path / "one/cert.pem").write_text("no certificate\n")
    refused("one", "are damaged or do not belong together: copy all three once more")


# --- addresses


@pytest.mark.parametrize(
    ("address", "tls", "whole"),
    [
        ("10.0.0.1:8786", True, "tls://10.0.0.1:8786"),
        ("host.example:8786", True, "tls://host.example:8786"),
        ("tls://127.0.0.1:8786", True, "tls://127.0.0.1:8786"),
        ("10.0.0.1:8786", False, "tcp://10.0.0.1:8786"),
        ("tcp://10.0.0.1:8786", False, "tcp://10.0.0.1:8786"),
        ("127.0.0.1:8786", True, "tcp://127.0.0.1:8786"),
        ("[::1]:8786", True, "tcp://[::1]:8786"),
        ("tcp://localhost:8786", True, "tcp://localhost:8786"),
        ("inproc://10.0.0.1/12/1", True, "inproc://10.0.0.1/12/1"),
    ],
)
def test_other_machines_have_tls_unless_it_is_not_wanted(address: str, tls: bool, whole: str, tmp_path: Path) -> None:
    keys = make(tmp_path / "keys")
    assert scheduler_at(address, keys.folder, tls) == Scheduler(whole, keys if whole.startswith("tls") else None)


@pytest.mark.parametrize(
    ("address", "tls", "wording"),
    [
        ("tcp://10.0.0.1:8786", True, "is not encrypted, and whoever reaches it can run programs as you: use tls://10.0.0.1:8786, or --no-tls"),
        ("tls://10.0.0.1:8786", False, "has TLS: leave out --no-tls"),
        ("10.0.0.1", True, "is no address of a Dask scheduler, such as tls://10.0.0.1:8786"),
        ("ucx://10.0.0.1:8786", True, "is no address of a Dask scheduler"),
        ("10.0.0.1:99999", True, "is no address of a Dask scheduler"),
    ],
)  # fmt: skip
def test_addresses_without_tls_or_sense_are_refused(address: str, tls: bool, wording: str, tmp_path: Path) -> None:
    with pytest.raises(MachinesError) as error:
        scheduler_at(address, make(tmp_path / "keys").folder, tls)
    assert str(error.value).startswith(f"{address} {wording}")


def test_without_tls_is_said(tmp_path: Path) -> None:
    said = inalab("run", "quickstart", "--quick", "--results", str(tmp_path), "--on", "127.0.0.1:9")
    assert "without TLS: whoever reaches tcp://127.0.0.1:9 can run programs as you" in said.stdout
    assert said.returncode == 1 and said.stderr.startswith("inalab: no Dask scheduler answers at tcp://127.0.0.1:9: start one with")


# --- who answers


@contextmanager
def answering(keys: Keys | None, word: bytes = b"hello") -> Iterator[str]:
    """What listens as a scheduler does: it checks who comes, and has the first word."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with suppress(OSError):
            while True:
                connection: socket.socket = listener.accept()[0]
                with closing(connection), suppress(ssl.SSLError, ConnectionError):
                    if keys is not None:
                        listen: dict[str, Any] = schedulers.Security(
                            tls_ca_file=str(keys.authority),
                            tls_scheduler_cert=str(keys.certificate),
                            tls_scheduler_key=str(keys.key),
                        ).get_listen_args("scheduler")
                        connection = listen["ssl_context"].wrap_socket(connection, server_side=True)
                    connection.sendall(word)
                    connection.recv(1000)
                    connection.close()

    thread = threading.Thread(target=answer)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)
    assert not thread.is_alive()


def test_only_a_scheduler_with_the_same_keys_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = make(tmp_path / "ours"), make(tmp_path / "theirs")
    with answering(ours) as address:
        scheduler_at(f"tls://{address}", ours.folder).greet()
        with pytest.raises(MachinesError, match=rf"has other keys than {theirs.folder} .*: copy the same keys to every machine"):
            scheduler_at(f"tls://{address}", theirs.folder).greet()
        trusting = make(tmp_path / "trusting")  # who trusts the scheduler, and is not trusted
        trusting.authority.write_bytes(ours.authority.read_bytes())
        with pytest.raises(MachinesError, match=rf"does not accept the keys in {trusting.folder}: copy the same keys"):
            Scheduler(f"tls://{address}", trusting).greet()
        monkeypatch.setattr(schedulers, "GREETING", 0.5)
        with pytest.raises(AbsentError, match="says nothing: it is frozen, or it expects TLS: then use tls://"):
            scheduler_at(f"tcp://{address}").greet()
    with pytest.raises(AbsentError, match=r"no Dask scheduler answers at .*: start one with `inalab campaign scheduler`"):
        scheduler_at(f"tls://{address}", ours.folder).greet()
    with answering(None) as address:
        scheduler_at(f"tcp://{address}").greet()
        with pytest.raises(
            MachinesError, match="has no TLS: start the scheduler with `inalab campaign scheduler`, or use --no-tls"
        ):
            scheduler_at(f"tls://{address}", ours.folder).greet()


def test_a_worker_with_other_keys_ends_with_a_sentence(tmp_path: Path) -> None:
    ours, theirs = make(tmp_path / "ours"), make(tmp_path / "theirs")
    with answering(ours) as address:
        refused = inalab("campaign", "worker", f"tls://{address}", "--keys", str(theirs.folder))
    assert refused.returncode == 1 and f"has other keys than {theirs.folder}" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
