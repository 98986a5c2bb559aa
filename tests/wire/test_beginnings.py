"""Detection of a connection's protocol by its first bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.wire.errors import ForeignProtocolError, RemoteProtocolError
from ha_core.wire.frames import frame_size
from ha_core.wire.protocol_detection import LEAST, WITH_TLS, WITHOUT_TLS, Speech, speech


@pytest.mark.parametrize(
    ("head", "spoken"),
    [
        (b"\x16\x03\x01\x02", Speech.TLS),
        (b"\x15\x03\x03\x00", Speech.TLS),
        (b"GET ", Speech.HTTP),
        (b"PRI ", Speech.HTTP),
        (b"PROX", Speech.PROXY),
        (b"\r\n\r\n", Speech.PROXY),
        (b"\0\0\0\x1a", Speech.KAFKA),
        (b"\x06\x40\0\0", Speech.KAFKA),
        (b"SSH-", Speech.OTHER),
        (b"\xff\xff\xff\xff", Speech.OTHER),
    ],
)
def test_first_bytes_reveal_the_protocol(head: bytes, spoken: Speech) -> None:
    assert speech(head) is spoken


@given(st.binary(min_size=4, max_size=4))
def test_misplaced_protocols_are_explained(head: bytes) -> None:
    spoken = speech(head)
    assert (spoken in WITH_TLS) is (spoken is not Speech.TLS)
    if spoken in WITHOUT_TLS:
        assert int.from_bytes(head, "big") >= LEAST
        with pytest.raises(ForeignProtocolError, match=WITHOUT_TLS[spoken].split(":")[0]):
            frame_size(head, 0, 2**31 - 1, 0)


@given(st.integers(0, 2**31 - 1))
def test_valid_size_is_accepted_unless_it_begins_another_protocol(size: int) -> None:
    head = size.to_bytes(4, "big")
    if speech(head) not in WITHOUT_TLS:
        assert frame_size(head, 0, 2**31 - 1, 0) == size
        with pytest.raises(RemoteProtocolError, match="are allowed"):
            frame_size(head, 0, size - 1, 0)
