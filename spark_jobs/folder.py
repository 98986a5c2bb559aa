"""Folders written by Spark and managed by the driver: local, or on a store that both Spark and Arrow support."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow.fs as arrow_fs


class Folder:
    """A folder by its path or URI; it need not exist. `uri` is the form for Spark."""

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/") if "://" in uri else str(Path(uri).resolve())
        # Spark's s3a is Arrow's s3.
        self._fs, self._path = arrow_fs.FileSystem.from_uri(self.uri.replace("s3a://", "s3://", 1))

    def __truediv__(self, name: str) -> Folder:
        return Folder(f"{self.uri}/{name}")

    def exists(self) -> bool:
        return bool(self._fs.get_file_info(self._path).type != arrow_fs.FileType.NotFound)

    def names(self) -> list[str]:
        """Names of its entries, sorted; empty if it does not exist."""
        found = self._fs.get_file_info(arrow_fs.FileSelector(self._path, allow_not_found=True))
        return sorted(one.base_name for one in found)

    def delete(self) -> None:
        if self.exists():
            self._fs.delete_dir(self._path)

    def write_text(self, name: str, texts: Iterable[str]) -> None:
        """Writes a file, text after text, atomically."""
        self._fs.create_dir(self._path, recursive=True)
        path = f"{self._path}/{name}"
        with self._fs.open_output_stream(f"{path}.unfinished") as file:
            for text in texts:
                file.write(text.encode())
        self._fs.move(f"{path}.unfinished", path)

    def read_text(self, name: str) -> str | None:
        """None if there is no such file."""
        try:
            with self._fs.open_input_stream(f"{self._path}/{name}") as file:
                return bytes(file.readall()).decode()
        except FileNotFoundError:
            return None
