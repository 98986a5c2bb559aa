"""Client ids are split into the instance and the parts that libraries add."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.model import UserBindings, View
from ha_core.model.identity import MAX_LENGTH, NAMED_FORMS, FormError, instance_of, read_forms

UUID = "0b5fa0f2-2b6e-4a5c-8a0e-3f0c5b8f2d11"
NAMED = tuple(NAMED_FORMS)
NUMBERED = ("{instance}-{number}",)
FORMS = st.sampled_from([NAMED, NUMBERED, ("x-{instance}",), ("{instance}.{uuid}", "{instance}-{number}")])


@pytest.mark.parametrize(
    ("client_id", "instance"),
    [
        (f"till-{UUID}-StreamThread-1-consumer", "till"),
        (f"till-{UUID}-StreamThread-12-restore-consumer", "till"),
        (f"till-{UUID}-StateUpdater-1-restore-consumer", "till"),
        ("till-StateUpdater-2-restore-consumer", "till"),
        (f"till-{UUID}-StreamThread-1-producer", "till"),
        (f"till-{UUID}-StreamThread-1-0_3-producer", "till"),
        (f"till-{UUID}-global-consumer", "till"),
        (f"till-{UUID}-admin", "till"),
        ("till-1-StreamThread-2-producer", "till-1"),
        ("connector-producer-copy-orders-0", "copy-orders"),
        ("connector-consumer-sink-1-12", "sink-1"),
        ("connector-dlq-producer-sink-0", "sink"),
        ("till", "till"),
        ("till-admin", "till-admin"),
        ("till-StreamThread-x-consumer", "till-StreamThread-x-consumer"),
        ("connector-producer--0", "connector-producer--0"),
        (f"-{UUID}-admin", f"-{UUID}-admin"),
        ("", ""),
    ],
)
def test_the_name_that_an_operator_gave_to_streams_or_connect_is_the_instance(client_id: str, instance: str) -> None:
    assert instance_of(client_id, NAMED) == instance


def test_a_client_id_without_a_form_or_above_255_characters_is_its_own_instance() -> None:
    long = "a" * MAX_LENGTH + "-1"

    assert instance_of("pod-1", ()) == "pod-1"
    assert instance_of(long, NUMBERED) == long
    assert instance_of(long[2:], NUMBERED) == "a" * (MAX_LENGTH - 2)


def test_a_form_that_this_version_does_not_know_removes_nothing() -> None:
    assert instance_of("pod-1", ("of-a-newer-version", *NUMBERED)) == "pod"


@given(text=st.text(alphabet="a1-x.", max_size=60), forms=FORMS)
def test_forms_remove_nothing_from_an_instance(text: str, forms: tuple[str, ...]) -> None:
    instance = instance_of(text, forms)

    assert instance_of(instance, forms) == instance
    assert bool(instance) == bool(text)


@pytest.mark.parametrize(
    "form",
    [
        "of-nobody", "{instance}", "{instance}{number}", "{instance}-{name}", "{instance}-1{number}",
        "{instance}-{number}2", "{uuid}-{instance}", "{instance}-{number}{uuid}", "{instance}-{", "}{instance}-x",
        "{instance}-{instance}", "{instance}-" + "x" * MAX_LENGTH, "",
    ],
)  # fmt: skip
def test_malformed_and_ambiguous_forms_are_refused(form: str) -> None:
    with pytest.raises(FormError):
        read_forms(form)


def test_matching_a_client_id_takes_time_linear_in_its_length() -> None:
    begun = time.process_time()
    for client_id in ("-1" * (MAX_LENGTH // 2), "1" * MAX_LENGTH, "-0_" * (MAX_LENGTH // 3), "-" * 32_000):
        for _ in range(20):
            instance_of(client_id, (*NAMED, *NUMBERED))
    assert time.process_time() - begun < 2.0


def test_the_forms_of_a_user_apply_to_the_client_ids_of_that_user_only() -> None:
    view = View(bindings={"ann": UserBindings(user="ann", client_ids=NUMBERED), "bo": UserBindings(user="bo")})

    assert view.identify("ann", "pod-1").instance == "pod"
    assert view.identify("bo", "pod-1").instance == "pod-1"
    assert view.identify("cy", "pod-1").instance == "pod-1"
    assert view.identify("ann", None).instance == ""


def test_the_topic_in_an_ha_client_id_is_found_after_forms_are_applied() -> None:
    view = View(bindings={"ann": UserBindings(user="ann", client_ids=NAMED)})

    identity = view.identify(None, "HA#ann#orders-StreamThread-1-consumer")

    assert identity == ("ann", "HA#ann#orders", "orders")
