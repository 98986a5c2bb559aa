"""Record batches: listed, shifted, given another producer id, trimmed. Batches by hand, checksums by google_crc32c."""

import random
from struct import pack, unpack_from

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import RemoteProtocolError
from ha_core.wire.checksum import crc_after_change
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.records import HEADER_BYTES, batches, first_batch, rewrite_producer_id, shift_batches, trim
from ha_core.wire.sequences import at_or_before, following, last_sequence
from tests.wire.samples import batch, damaged, legacy, seeds

THREE = batch(100, 10, producer=7, sequence=5) + batch(110, 5) + batch(115, 1)


def test_batches_are_listed_with_the_fields_of_their_headers() -> None:
    # When the batches of a log are listed
    found = list(batches(b"xx" + THREE, 2, 2 + len(THREE)))
    # Then each has the fields of its header
    assert [(b.base_offset, b.last_offset, b.records_count) for b in found] == [
        (100, 109, 10),
        (110, 114, 5),
        (115, 115, 1),
    ]
    assert (found[0].producer_id, found[0].producer_epoch, found[0].base_sequence) == (7, 0, 5)
    assert found[0].at == 2
    assert found[0].end == found[1].at
    assert found[2].end == 2 + len(THREE)


def test_a_truncated_last_batch_is_left_out() -> None:
    two = len(THREE) - len(batch(115, 1))
    for end in range(two, len(THREE)):
        assert len(list(batches(THREE, 0, end))) == 2


@pytest.mark.parametrize(
    ("prefix", "named"),
    [
        (pack(">qiibB", 0, 48, 0, 2, 0), "length 48"),
        (pack(">qiibB", 0, -12, 0, 2, 0), "length -12"),
        (pack(">qiibB", 0, 13, 0, 1, 0), "length 13"),
        (pack(">qiibB", 0, 100, 0, 3, 0), "magic 3"),
        (pack(">qiibB", 0, 100, 0, -1, 0), "magic -1"),
        (pack(">qiibIhi16xqhii", 0, 49, 0, 2, 0, 0, -1, 0, 0, 0, 1), "delta -1"),
    ],
)
def test_an_impossible_batch_is_refused(prefix: bytes, named: str) -> None:
    with pytest.raises(RemoteProtocolError, match=named):
        list(batches(prefix + bytes(100), 0, len(prefix) + 100))


def test_shifting_batches_changes_offsets_and_epochs_and_keeps_the_checksum_valid() -> None:
    # When batches are shifted
    buf = bytearray(THREE)
    assert shift_batches(buf, 0, len(buf), -100) == 3
    # Then offsets and epochs have changed, and checksums fit
    found = list(batches(buf, 0, len(buf)))
    assert [b.base_offset for b in found] == [0, 10, 15]
    assert {unpack_from(">i", buf, b.at + 12)[0] for b in found} == {-1}
    for b in found:
        assert google_crc32c.value(bytes(buf[b.at + 21 : b.end])) == unpack_from(">I", buf, b.at + 17)[0]
    # And shifting them back restores all but the epochs
    shift_batches(buf, 0, len(buf), 100)
    assert buf == batch(100, 10, producer=7, sequence=5, epoch=-1) + batch(110, 5, epoch=-1) + batch(115, 1, epoch=-1)


def test_a_truncated_batch_is_shifted_when_its_beginning_is_there() -> None:
    cut = batch(7, 1)[:18]
    buf = bytearray(cut)
    assert shift_batches(buf, 0, len(buf), 1) == 1
    assert unpack_from(">q", buf)[0] == 8
    short = bytearray(cut[:17])
    assert shift_batches(short, 0, len(short), 1) == 0
    assert short == cut[:17]


def test_shifting_old_messages_changes_only_their_offsets() -> None:
    # When messages of older formats are shifted
    old = legacy(50, 0) + legacy(51, 1) + legacy(59, 1, attributes=1)
    buf = bytearray(old)
    assert shift_batches(buf, 0, len(buf), 1000) == 3
    # Then their offsets have changed
    found = list(batches(buf, 0, len(buf)))
    assert [b.base_offset for b in found] == [1050, 1051, 1059]
    assert [b.magic for b in found] == [0, 1, 1]
    assert found[2].attributes == 1
    # And shifting them back restores them
    shift_batches(buf, 0, len(buf), -1000)
    assert buf == old


def test_a_compressed_message_of_magic_0_cannot_be_shifted() -> None:
    buf = bytearray(legacy(59, 0, attributes=2))
    with pytest.raises(RemoteProtocolError, match="magic 0"):
        shift_batches(buf, 0, len(buf), 1)


@pytest.mark.parametrize(("base", "delta"), [(5, -6), (2**63 - 1, 1), (-1, 0)])
def test_shifting_a_batch_out_of_the_offset_range_is_refused(base: int, delta: int) -> None:
    buf = bytearray(batch(base, 1))
    with pytest.raises(RemoteProtocolError, match="out of range"):
        shift_batches(buf, 0, len(buf), delta)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**62), st.binary(max_size=300))
@settings(deadline=None)
def test_rewriting_a_producer_id_keeps_the_checksum_valid(new_id: int, old_id: int, body: bytes) -> None:
    original = batch(4, 2, producer=old_id, sequence=8, body=body)
    buf = bytearray(b"ab" + original + b"cd")
    assert rewrite_producer_id(buf, 2, new_id)
    assert bytes(buf) == b"ab" + batch(4, 2, producer=new_id, sequence=8, body=body) + b"cd"


@given(st.integers(17, 200), st.integers(1, 255))
@settings(deadline=None)
def test_rewriting_the_producer_id_of_a_damaged_batch_keeps_it_damaged(at: int, flip: int) -> None:
    broken = bytearray(batch(4, 2, producer=5, sequence=8, body=bytes(140)))
    broken[at] ^= flip
    rewrite_producer_id(broken, 0, 77)
    assert google_crc32c.value(bytes(broken[21:])) != int.from_bytes(broken[17:21], "big")


@given(st.binary(min_size=1, max_size=16), st.binary(min_size=16, max_size=16), st.binary(max_size=5000), st.binary())
@settings(deadline=None)
def test_a_checksum_is_updated_for_a_change_without_the_bytes_after_it(
    before: bytes, after: bytes, behind: bytes, front: bytes
) -> None:
    after = after[: len(before)]
    crc = google_crc32c.value(front + before + behind)
    assert crc_after_change(crc, before, after, len(behind)) == google_crc32c.value(front + after + behind)


def test_a_producer_id_is_rewritten_before_the_records_of_its_batch_arrive() -> None:
    whole = batch(4, 2, producer=5, sequence=8, body=bytes(range(256)) * 400)
    buf = bytearray(whole[:HEADER_BYTES])
    assert rewrite_producer_id(buf, 0, 77)
    assert buf + whole[HEADER_BYTES:] == batch(4, 2, producer=77, sequence=8, body=bytes(range(256)) * 400)


def test_the_first_batch_is_found_only_when_it_is_the_only_one() -> None:
    alone = batch(4, 2, producer=5, sequence=8, body=bytes(100))
    found = first_batch(alone, 0, HEADER_BYTES, len(alone))
    assert found == next(iter(batches(alone, 0, len(alone))))
    assert first_batch(alone + alone, 0, len(alone), 2 * len(alone)) is None
    assert first_batch(alone, 0, HEADER_BYTES - 1, len(alone)) is None
    assert first_batch(legacy(4, 1, body=bytes(80)), 0, 90, 90) is None


def test_a_batch_without_a_producer_id_or_a_whole_header_is_left_unchanged() -> None:
    whole = batch(4, 2, producer=5, sequence=8)
    for data in (batch(4, 2), legacy(4, 1, body=bytes(80)), whole[:60], b""):
        buf = bytearray(data)
        assert not rewrite_producer_id(buf, 0, 77)
        assert buf == data
    with pytest.raises(LocalProtocolError, match="producer id -1"):
        rewrite_producer_id(bytearray(whole), 0, -1)


def test_trimming_drops_batches_at_or_above_the_limit_and_the_batch_that_straddles_it() -> None:
    ends = [0, *(b.end for b in batches(THREE, 0, len(THREE)))]
    assert trim(THREE, 0, len(THREE), 116) == ends[3]
    assert trim(THREE, 0, len(THREE), 115) == ends[2]
    assert trim(THREE, 0, len(THREE), 114) == ends[1]
    assert trim(THREE, 0, len(THREE), 112) == ends[1]
    assert trim(THREE, 0, len(THREE), 110) == ends[1]
    assert trim(THREE, 0, len(THREE), 101) == 0
    assert trim(THREE, 0, len(THREE), 0) == 0


def test_trimming_drops_a_truncated_batch_only_above_the_limit() -> None:
    cut = batch(0, 1) + batch(1, 1)[:30]
    assert trim(cut, 0, len(cut), 1) == len(batch(0, 1))
    assert trim(cut, 0, len(cut), 2) == len(cut)


def test_old_messages_are_trimmed_by_the_offset_of_their_last_record() -> None:
    plain = legacy(50, 1) + legacy(51, 1)
    assert trim(plain, 0, len(plain), 51) == len(legacy(50, 1))
    wrapper = legacy(50, 1) + legacy(59, 1, attributes=1) + legacy(60, 1)
    assert trim(wrapper, 0, len(wrapper), 55) == len(legacy(50, 1))
    assert trim(wrapper, 0, len(wrapper), 60) == len(wrapper) - len(legacy(60, 1))


@given(seeds)
@settings(max_examples=300, deadline=None)
def test_a_damaged_batch_is_walked_or_refused(seed: int) -> None:
    # Given damaged batches
    data = damaged(THREE, random.Random(seed))
    # When they are listed, shifted or trimmed
    # Then that is done, or refused as a remote error
    for walk in (
        lambda: list(batches(data, 0, len(data))),
        lambda: shift_batches(bytearray(data), 0, len(data), 5),
        lambda: trim(data, 0, len(data), 112),
    ):
        try:
            walk()
        except RemoteProtocolError as error:
            refused = str(error)
            continue
        else:
            refused = ""
        assert not refused
    rewrite_producer_id(bytearray(data), 0, 5)


def test_sequences_wrap_to_zero() -> None:
    top = 2**31 - 1
    assert last_sequence(0, 1) == 0
    assert last_sequence(top, 3) == 1
    assert following(top) == 0
    assert following(-1) == 0


@given(st.integers(0, 2**31 - 1), st.integers(1, 1000), st.integers(0, 2000))
@settings(deadline=None)
def test_sequences_of_a_batch_come_at_or_before_its_last_where_they_wrap_too(base: int, count: int, step: int) -> None:
    sequence = (base + step) % 2**31
    assert at_or_before(base, sequence)
    assert at_or_before(sequence, base) == (step == 0)
    assert at_or_before(sequence, last_sequence(base, count)) == (step < count)
    assert following(last_sequence(base, count)) == (base + count) % 2**31
