"""A TLS socket that behaves as a plain one: an operation that would block raises BlockingIOError.

Two differences remain: decrypted bytes, or the end, may wait in the socket unseen by a selector (`pending`); and bytes
that `send` has not taken must be offered again before anything else, from the first one on, because some of them may be
on their way.
"""

import contextlib
import errno
import fcntl
import socket
import ssl
import termios
from typing import Any

RECORD_BYTES = 16 << 10
"""Most bytes of one TLS record."""
MAX_RECORDS = 128
"""Read at once: each takes microseconds also where it holds one byte."""
_NOTHING = bytes(4)


class TlsSocket(ssl.SSLSocket):
    """Made by the contexts of `contexts`; the handshake is for the caller to do."""

    _ended = False

    def pending(self) -> int:
        """More than 0: a read will not block, at the end included."""
        return 1 if self._ended else super().pending()

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        """As many bytes as there are, or as `MAX_RECORDS` hold; 0 at the end.

        Some clients (librdkafka, for one) make a record of each field of a batch. Reading on costs a fraction of the
        caller's work for each call.
        """
        room = memoryview(buffer)[: nbytes or None]
        waits = self.gettimeout() != 0
        count = 0
        for number in range(MAX_RECORDS if room else 0):
            try:
                taken = int(self.read(len(room) - count, room[count:]))
            except ssl.SSLWantReadError:
                break
            except ssl.SSLWantWriteError:
                raise _takes_nothing() from None
            except ValueError:  # both sides have shut down
                return count
            if not taken:
                self._ended = True
                return count
            count += taken
            if count == len(room):
                return count
            # A socket that waits would wait for more bytes. The others are mostly read for one record: asking the
            # kernel for more costs a sixth of a futile read, and is done once where many records wait.
            if (waits or number == 0) and not super().pending() and (waits or not self._more_has_come()):
                return count
        if count == 0:
            raise BlockingIOError(errno.EAGAIN, "nothing to read")
        return count

    def _more_has_come(self) -> bool:
        """Whether the kernel has bytes of another record, or of a part of one."""
        return fcntl.ioctl(self.fileno(), termios.FIONREAD, _NOTHING) != _NOTHING

    def recv(self, bufsize: int = 1024, flags: int = 0) -> bytes:
        try:
            return bytes(self.read(bufsize))
        except ssl.SSLWantReadError:
            raise BlockingIOError(errno.EAGAIN, "nothing to read") from None
        except ssl.SSLWantWriteError:
            raise _takes_nothing() from None
        except ValueError:
            return b""

    def send(self, data: Any, flags: int = 0) -> int:
        """Whole records only: returns how many bytes are on their way for certain."""
        view = memoryview(data)
        sent = 0
        while sent < len(view):
            try:
                sent += super().send(view[sent : sent + RECORD_BYTES])
            except ssl.SSLWantWriteError:
                break
            except ssl.SSLWantReadError:
                raise _takes_nothing() from None
        if view and not sent:
            raise BlockingIOError(errno.EAGAIN, "the socket takes nothing")
        return sent

    def shutdown(self, how: int) -> None:
        """Tells the other side, in TLS as well, that no more is sent. Received bytes are still decrypted."""
        self._send_close_notify()
        socket.socket.shutdown(self, how)

    def close(self) -> None:
        if self.fileno() >= 0 and self.gettimeout() == 0:  # else it would wait for the other side's close_notify
            self._send_close_notify()
        super().close()

    def _send_close_notify(self) -> None:
        """Sends close_notify: without it clients take the end for an attack (a truncation), and log it as an error."""
        with contextlib.suppress(OSError, ValueError):
            self.unwrap()


def _takes_nothing() -> OSError:
    """TLS itself has to send something first, such as new keys that were requested, and the other side takes nothing.
    Waiting for that in both directions is not worth it: it happens to clients that provoke it, and a reader that is
    called again and again meanwhile would not rest."""
    return ConnectionAbortedError(errno.ECONNABORTED, "the other side takes no answer of TLS itself")
