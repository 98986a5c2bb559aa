"""Security profiles from files and mappings."""

from pathlib import Path

import pytest

from ha_core.kafka.errors import SecurityProfileError
from ha_core.kafka.security import NO_SECURITY, fields_of, load_profiles, profiles
from ha_core.wire.sasl import SecurityProfile


def test_a_profile_takes_its_password_from_a_file_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    file = tmp_path / "security.yaml"
    file.write_text("sasl: {mechanism: PLAIN, username: svc, password_file: secret}\nopen: {}\n")
    monkeypatch.setenv("SWITCHYARD_SECURITY_FILE", str(file))
    security_profiles = load_profiles()
    assert security_profiles == {
        "none": NO_SECURITY,
        "open": NO_SECURITY,
        "sasl": SecurityProfile("PLAIN", "svc", "s3cret"),
    }


def test_without_a_file_there_is_the_profile_without_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWITCHYARD_SECURITY_FILE", raising=False)
    assert load_profiles() == {"none": NO_SECURITY}


@pytest.mark.parametrize("login", [{}, {"mechanism": "PLAIN", "username": "svc", "password": "s"}, "token"])
def test_any_login_may_name_its_principal_and_hands_it_on(login: dict[str, str] | str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc")
    account = login if isinstance(login, dict) else {"mechanism": "OAUTHBEARER", "token_file": str(tmp_path / "token")}
    profile = profiles({"own": {**account, "principal": "User:CN=svc,O=a"}}, "there", tmp_path)["own"]
    assert profile.principal == "User:CN=svc,O=a"
    assert profiles({"own": fields_of(profile)}, "there", tmp_path)["own"] == profile


def test_the_password_is_never_shown() -> None:
    security_profiles = profiles(
        {"sasl": {"mechanism": "PLAIN", "username": "svc", "password": "s3cret"}}, "connection x"
    )
    assert "s3cret" not in repr(security_profiles)
    assert security_profiles["sasl"].password == "s3cret"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"mechanism": "GSSAPI", "username": "u", "password": "p"}, "mechanism 'GSSAPI'"),
        ({"mechanism": "PLAIN", "password": "p"}, "username None"),
        ({"mechanism": "PLAIN", "username": "u"}, "either password_file or password"),
        ({"mechanism": "PLAIN", "username": "u", "password": 12345}, "Write it as quoted text"),
        ({"mechanism": "PLAIN", "username": "u", "pasword": "p"}, "pasword: no such key"),
        ({"username": "u"}, "Add `mechanism: PLAIN`"),
        ("PLAIN", "holds str"),
        ({"mechanism": "PLAIN", "username": "u", "password_file": "missing"}, "No such file"),
        ({"principal": "svc"}, "Write it as brokers name the account: `principal: User:NAME`"),
        ({"principal": "User:"}, "principal 'User:' is no user's"),
        ({"principal": "User:*"}, "principal 'User:*' is no user's"),
        ({"principal": "Group:ops"}, "principal 'Group:ops' is no user's"),
    ],
)
def test_an_invalid_security_profile_is_named_with_the_remedy(fields: object, named: str, tmp_path: Path) -> None:
    with pytest.raises(SecurityProfileError, match="profile sasl") as caught:
        profiles({"sasl": fields}, "security.yaml", tmp_path)
    assert named in str(caught.value)


@pytest.mark.parametrize("allowed", ["password", "password_file"])
def test_an_error_offers_only_profiles_that_are_allowed_there(allowed: str, tmp_path: Path) -> None:
    login = {"mechanism": "PLAIN", "username": "u"}
    other = {"password": "password_file", "password_file": "password"}[allowed]
    known = ", ".join(sorted(("mechanism", "principal", "tls", "username", allowed)))
    for fields, said in (
        (login, f"give {allowed}."),
        (login | {other: "x"}, f"{other}: no such key. Known: {known}."),
    ):
        with pytest.raises(SecurityProfileError) as caught:
            profiles({"sasl": fields}, "there", tmp_path, (allowed,))
        assert str(caught.value) == f"there: profile sasl: {said}"


@pytest.mark.parametrize("text", ["- a\n", "a: [\n", "\tx"])
def test_a_file_that_holds_no_profiles_is_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "security.yaml"
    file.write_text(text)
    with pytest.raises(SecurityProfileError, match=r"security\.yaml"):
        load_profiles(file)
