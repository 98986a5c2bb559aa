"""Login modules of `sasl.jaas.config`, quoted as Java's tokenizer reads them."""

import time

import pytest

from ha_core.client_properties.jaas import MAX_CHARACTERS, MAX_OPTIONS, JaasError, login_module

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("alice", "alice"),
        ('"alice"', "alice"),
        ("'alice'", "alice"),
        ('"with space; and = signs // not a comment"', "with space; and = signs // not a comment"),
        (r'"a \"quoted\" word"', 'a "quoted" word'),
        (r'"back\\slash"', r"back\slash"),
        (r'"\t\n\r\b\f\a\v"', "\t\n\r\b\f\a\v"),
        (r'"\101\7\400"', "A\a 0"),
        (r'"\q"', "q"),
        ("a-b_c$d.e9", "a-b_c$d.e9"),
        ("ümlaut€", "ümlaut€"),
        ('""', ""),
        ('"3"', "3"),
        ("/* a note */ alice // another\n", "alice"),
    ],
)
def test_a_value_is_read_as_java_reads_it(written: str, value: str) -> None:
    module = login_module(f"{MODULE} required password={written};")
    assert (module.name, module.options) == (MODULE, {"password": value})


def test_options_are_separated_by_any_white_space_and_the_last_one_of_a_name_wins() -> None:
    module = login_module(f'\n  {MODULE}\n REQUIRED\tusername = \'a\'\n"password"="b" username=c ;\n')
    assert module.options == {"username": "c", "password": "b"}


@pytest.mark.parametrize("flag", ["required", "Requisite", "SUFFICIENT", "optional"])
def test_every_control_flag_of_java_is_accepted(flag: str) -> None:
    assert login_module(f"{MODULE} {flag};").options == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no login module"),
        (" // nothing", "names no login module"),
        (f"{MODULE} required username=3;", "in quotes where the value begins with a digit"),
        (f"{MODULE} required username=-secret;", "in quotes where"),
        (f"{MODULE} required username;", "no value that Java reads"),
        (f"{MODULE} required username=;", "no value that Java reads"),
        (f"{MODULE} required 3=a;", "no option where one is expected"),
        (f"{MODULE} username=a;", "has no control flag"),
        (f"{MODULE}", "has no control flag"),
        ("required;", "has no control flag"),
        ("3 required;", "does not begin with the class"),
        (f"{MODULE} required username=a", "does not end with a semicolon"),
        (f"{MODULE} required password=a/b;", "does not end with a semicolon"),
        (f"{MODULE} required password=\"it's;", "not closed"),
        (f'{MODULE} required password="a\nb";', "not closed"),
        (f"{MODULE} required; {MODULE} required;", "more than one login module"),
        (f"{MODULE} required;;", "more than one login module"),
        (f"{MODULE} required {'a=b ' * (MAX_OPTIONS + 1)};", f"more than {MAX_OPTIONS} options"),
        ("a" * (MAX_CHARACTERS + 1), f"longer than {MAX_CHARACTERS} characters"),
    ],
)
def test_a_text_that_java_would_not_accept_is_refused_with_its_fault(text: str, said: str) -> None:
    with pytest.raises(JaasError, match=said):
        login_module(text)


def test_no_error_and_no_repr_shows_a_value() -> None:
    assert "s3cret" not in repr(login_module(f'{MODULE} required password="s3cret";'))
    for text in ('password="s3cret" 7', 'password="s3cret" x=7;', 'password="s3cret" "s3cret"'):
        with pytest.raises(JaasError) as error:
            login_module(f"{MODULE} required {text}")
        assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("unit", ["/*", '"\\', "a ", "-.", "'", "/", "\\"])
def test_a_long_text_is_read_in_linear_time(unit: str) -> None:
    begun = time.process_time()
    with pytest.raises(JaasError):
        login_module(unit * (MAX_CHARACTERS // len(unit)))
    assert time.process_time() - begun < 2
