"""Who may hold which client: the operator's list of sites, by key.

Flower lets a node in by its key, and tells the key on; whom the node holds is what it says itself.
The list says whom it may hold, so that no site can answer for another.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)

from .settings import BadSetting

if sys.version_info >= (3, 11):
    import tomllib
else:  # Flower brings it
    import tomli as tomllib


@dataclass(frozen=True)
class Site:
    """One of the list: its name, and the clients it may hold."""

    name: str
    clients: frozenset[int]


@dataclass(frozen=True)
class Holders:
    """The sites of a federation, by their key as Flower has it."""

    sites: dict[bytes, Site]

    @staticmethod
    def read(path: str) -> Holders:
        """The list in a file: `[[site]]` with `name`, `key` and `clients`."""
        file = Path(path)
        try:
            entries = tomllib.loads(file.read_text()).get("site")
        except RecursionError:
            raise BadSetting(f"sites {path}: is nested too deeply") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadSetting(f"sites {path}: {error}") from None
        if not isinstance(entries, list) or not entries:
            raise BadSetting(f"sites {path}: no site; give [[site]] with name, key and clients")
        sites: dict[bytes, Site] = {}
        holder: dict[int, str] = {}
        for place, entry in enumerate(entries, 1):
            where = f"sites {path}: site {place}"
            site, key = site_of(entry, where), key_of(entry, file.parent, where)
            if key in sites:
                raise BadSetting(f"{where}: {site.name} has the key of {sites[key].name}")
            for client in site.clients:
                if client in holder:
                    raise BadSetting(f"{where}: client {client} is {holder[client]}'s already")
                holder[client] = site.name
            sites[key] = site
        return Holders(sites)

    def site(self, key: bytes) -> Site | None:
        """The site with a key, if it is in the list."""
        return self.sites.get(key.strip())

    def owner(self, client: int) -> str:
        """Whose a client is."""
        return self._owners.get(client, "nobody")

    @cached_property
    def _owners(self) -> dict[int, str]:
        sites = self.sites.values()
        return {client: site.name for site in sites for client in site.clients}


def site_of(entry: Any, where: str) -> Site:
    """The name and the clients of an entry."""
    if not isinstance(entry, dict) or set(entry) != {"name", "key", "clients"}:
        found = ", ".join(entry) if isinstance(entry, dict) else repr(entry)
        raise BadSetting(f"{where}: has {found or 'nothing'}; give name, key and clients")
    name, clients = entry["name"], entry["clients"]
    if not isinstance(name, str) or not name or not name.isprintable():
        raise BadSetting(f"{where}: name is {name!r}; give a printable name")
    if not isinstance(clients, list) or not all(type(one) is int and one >= 0 for one in clients):
        raise BadSetting(f"{where}: clients is {clients!r}; give their numbers, as [0, 3]")
    return Site(name, frozenset(clients))


def key_of(entry: dict[str, Any], folder: Path, where: str) -> bytes:
    """The key of an entry, the text of a `.pub` file or its path, as Flower has it."""
    text = entry["key"]
    try:
        raw = text if text.startswith("ecdsa-") else (folder / text).read_text()
        key = load_ssh_public_key(raw.encode())
    except (
        AttributeError,
        NotImplementedError,  # of a point that is not written out
        OSError,
        ValueError,
        UnsupportedAlgorithm,
    ) as error:
        raise BadSetting(
            f"{where}: key is {text!r}: {error}; give the path of a .pub file, or its text"
        ) from None
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).strip()
