"""A TCP proxy in front of a real ZooKeeper that can lose the next write's reply, or the whole connection."""

import contextlib
import socket
import struct
import threading

_MULTI = 14


class FaultProxy:
    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._guard = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._losses: list[bool] = []
        self._awaited: int | None = None
        self._down = False
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_next_reply(self, made: bool = True) -> None:
        """Cut the connection at the next write: after the server has made it, or before it hears of it."""
        with self._guard:
            self._losses.append(made)

    def losses_left(self) -> int:
        """Ordered losses that have not happened."""
        with self._guard:
            return len(self._losses) + (self._awaited is not None)

    def suspend(self) -> None:
        with self._guard:
            self._down = True
        self._cut()

    def resume(self) -> None:
        with self._guard:
            self._down = False

    def close(self) -> None:
        self._listener.close()
        self._cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._down:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                client.close()
                continue
            with self._guard:
                self._pairs.append((client, server))
            threading.Thread(target=self._to_server, args=(client, server), daemon=True).start()
            threading.Thread(target=self._to_client, args=(server, client), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        first = True
        for frame in _frames(client):
            # The first frame of a connection is the session's; it has no request header.
            if not first and len(frame) >= 8:
                xid, kind = struct.unpack_from("!ii", frame)
                with self._guard:
                    loss = self._losses.pop(0) if kind == _MULTI and self._losses else None
                    if loss:
                        self._awaited = xid
                if loss is False:
                    break
            first = False
            if not _send(server, frame):
                break
        _end(client, server)

    def _to_client(self, server: socket.socket, client: socket.socket) -> None:
        first = True
        for frame in _frames(server):
            if not first and len(frame) >= 4 and struct.unpack_from("!i", frame)[0] == self._awaited:
                self._awaited = None
                break
            first = False
            if not _send(client, frame):
                break
        _end(client, server)

    def _cut(self) -> None:
        with self._guard:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            _end(*pair)


def _frames(source: socket.socket):  # type: ignore[no-untyped-def]
    data = b""
    while True:
        while len(data) >= 4 and len(data) >= 4 + (size := struct.unpack_from("!i", data)[0]):
            yield data[4 : 4 + size]
            data = data[4 + size :]
        try:
            chunk = source.recv(1 << 20)
        except OSError:
            return
        if not chunk:
            return
        data += chunk


def _send(target: socket.socket, frame: bytes) -> bool:
    try:
        target.sendall(struct.pack("!i", len(frame)) + frame)
    except OSError:
        return False
    return True


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
