"""Listings that have etags: pyarrow's have none, those of fsspec's file systems do, where their package is installed.

One listing gives size, time and etag of all files; no file is asked for by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from coterie.pipeline.storage import FileStat, s3_settings, told

if TYPE_CHECKING:
    from coterie.pipeline.storage import Remote

PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs"}
CLASSES = {"s3fs": "S3FileSystem", "gcsfs": "GCSFileSystem", "adlfs": "AzureBlobFileSystem"}
ETAGS, TIMES = ("ETag", "etag"), ("LastModified", "mtime", "updated", "last_modified")


def tagged_files(place: Remote, is_recursive: bool = True) -> dict[str, FileStat] | None:
    """What is below a folder, or a file by the name ""; None where nothing is installed that could tell the etags."""
    system = _system_of(place)
    if system is None:
        return None
    depth = {} if is_recursive else {"maxdepth": 1}
    with told(str(place)):
        found = system.find(place.key, detail=True, **depth)
    start = place.key.rstrip("/")
    return {
        name.strip("/").removeprefix(start).lstrip("/"): _status(about)
        for name, about in sorted(found.items())
        if about.get("type") == "file"
    }


def _system_of(place: Remote) -> Any:
    scheme = place.uri.partition("://")[0]
    package = PACKAGES.get({"s3a": "s3", "abfss": "abfs"}.get(scheme, scheme), "")
    if not package or find_spec(package) is None:
        return None
    how = {"use_listings_cache": False, "skip_instance_cache": True}
    return getattr(import_module(package), CLASSES[package])(**how, **_settings(package, place))


def _settings(package: str, place: Remote) -> dict[str, Any]:
    """As pyarrow is told; without keys both look into the environment and the machine's role."""
    options = place.known_options
    if package == "s3fs":
        known = s3_settings(options)
        client = {"region_name": known.get("region")}
        if endpoint := known.get("endpoint_override"):
            client["endpoint_url"] = f"{known['scheme']}://{endpoint}"
        keys = {"key": known.get("access_key"), "secret": known.get("secret_key")}
        told = {name: value for name, value in keys.items() if value}
        return told | {"client_kwargs": {name: value for name, value in client.items() if value}}
    if package == "adlfs":
        host = place.uri.partition("@")[2].partition("/")[0]
        key = options.get(f"fs.azure.account.key.{host}")
        return {"account_name": host.partition(".")[0]} | ({"account_key": key} if key else {})
    return {}


def _status(about: Mapping[str, Any]) -> FileStat:
    etag = next((str(about[name]) for name in ETAGS if about.get(name)), "").strip('"')
    time = next((about[name] for name in TIMES if about.get(name)), None)
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    return FileStat(int(about["size"]), round(time.timestamp() * 1e6) * 1000 if time is not None else 0, etag)
