"""Rounds depend on their seeds alone, and together they hit all parts in all steps."""

from tests.system.nemesis.schedule import HALVES, STEPS, Bound, Does, Hits, Kind, Sends, drawn

MANY = [drawn(seed) for seed in range(600)]


def test_a_seed_always_gives_one_round() -> None:
    assert [drawn(seed) for seed in range(50)] == MANY[:50]


def test_rounds_hit_every_part_in_every_way_and_in_every_step() -> None:
    struck = {(strike.hits, strike.does) for one in MANY for strike in one.strikes}
    steps = {(one.kind, strike.step, strike.before) for one in MANY for strike in one.strikes}

    assert {hits for hits, _ in struck} == set(Hits)
    assert {(Hits.GATEWAY_1, Does.PAUSE), (Hits.EXECUTOR, Does.PAUSE), (Hits.EXECUTOR, Does.KILL)} <= struck
    assert steps == {(kind, step, before) for kind in Kind for step in STEPS[kind] for before in (False, True)}


def test_gateways_and_clusters_are_struck_between_the_halves_of_requests_with_and_without_answer() -> None:
    struck = {
        (strike.hits, writer.sends)
        for one in MANY
        for strike in one.strikes
        for writer in one.writers
        if strike.between_halves
    }

    assert {hits for hits, _ in struck} == {Hits.GATEWAY_1, Hits.GATEWAY_2, Hits.ORIGIN, Hits.TARGET}
    assert {(hits, sends) for hits, _ in struck for sends in HALVES} <= struck


def test_every_kind_of_writer_is_bound_to_the_target_or_to_nothing_in_some_round() -> None:
    writers = {(writer.sends, writer.bound) for one in MANY for writer in one.writers}

    assert {sends for sends, _ in writers} == set(Sends)
    assert {bound for _, bound in writers} == set(Bound)


def test_transactions_are_never_in_the_way_of_a_predicted_cut() -> None:
    assert not any(
        writer.sends is Sends.TRANSACTIONAL for one in MANY if one.kind is Kind.PREDICTED for writer in one.writers
    )


def test_most_rounds_leave_a_gap_in_which_others_work() -> None:
    assert sum(max(one.gaps_s) > 1 for one in MANY) > len(MANY) / 2
