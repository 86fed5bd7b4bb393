"""A federation behind its gate: a SuperLink on loopback, nginx in front of it, sites with keys."""

from __future__ import annotations

import socket
import ssl
import subprocess
from pathlib import Path

from deployment import Deployment, free_port, until

DEPLOY = Path(__file__).parents[2] / "deploy"


def nginx(folder: Path, public: int | str, private: int | str) -> list[str]:
    """Writes the repository's configuration into a folder, on other ports; the command."""
    text = (DEPLOY / "nginx.conf").read_text()
    assert text.count("9400") == text.count("9401") == 1
    text = text.replace("9401", str(private)).replace("9400", str(public))
    (folder / "nginx.conf").write_text(text)
    return ["nginx", "-p", str(folder), "-c", "nginx.conf"]


def certificates(folder: Path) -> None:
    """A certificate authority, and the server's certificate."""
    ca = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -days 2 -subj /CN=ca"
    own = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -subj /CN=127.0.0.1"
    (folder / "names.txt").write_text("subjectAltName = DNS:localhost, IP:127.0.0.1")
    for command in (
        f"{ca} -keyout ca.key -out ca.crt",
        f"{own} -keyout server.key -out server.csr",
        "openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 "
        "-extfile names.txt -out server.pem",
    ):
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)


class Gated(Deployment):
    """A SuperLink that only this machine reaches, and the gate that sites and strangers see."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        certificates(folder)
        super().__init__(folder, tls=folder)
        self.public = free_port()
        self.start_gate()

    def start_gate(self) -> None:
        """Starts nginx, and waits until it answers."""
        self.gate = self.start("gate", nginx(self.folder, self.public, self.port))
        until(self._open, 20, "the gate's port")

    def _open(self) -> bool:
        assert not self.gate.ended, self.gate.text()
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", self.public)) == 0

    def key(self, site: str) -> Path:
        """Makes a site's key; its path."""
        path = self.folder / site
        words = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-C", "", "-f", path]
        subprocess.run(words, check=True)
        return path

    def flwr(self, *words: str, home: Path | None = None) -> subprocess.CompletedProcess:
        """Flower's command, as the operator types it on the server; with another home, as
        somebody else."""
        env = self.env | ({"FLWR_HOME": str(home)} if home else {})
        return subprocess.run(
            ["flwr", *words], env=env, cwd=self.folder, capture_output=True, text=True, timeout=60
        )

    def register(self, site: str) -> Path:
        """Makes a site's key and registers it; its path."""
        path = self.key(site)
        done = self.flwr("supernode", "register", f"{path}.pub", self.name, "--name", site)
        assert done.returncode == 0, done.stdout + done.stderr
        return path

    def say(self, request: bytes, port: int | None = None) -> bytes:
        """Sends bytes over TLS to the gate, or to another port; the first line that comes back."""
        trusted = ssl.create_default_context(cafile=self.folder / "ca.crt")
        with (
            socket.create_connection(("127.0.0.1", port or self.public), timeout=20) as plain,
            trusted.wrap_socket(plain, server_hostname="127.0.0.1") as line,
        ):
            line.sendall(request)
            return line.makefile("rb").readline().strip()


def outsider(gated: Gated, folder: Path) -> Path:
    """The home of somebody who has the CA certificate and points Flower's command at the gate."""
    folder.mkdir()
    (folder / "config.toml").write_text(
        f'[superlink]\ndefault = "{gated.name}"\n\n[superlink.{gated.name}]\n'
        f'address = "127.0.0.1:{gated.public}"\nroot-certificates = "{gated.folder}/ca.crt"\n'
    )
    return folder
