"""The lines that `switchyard stack up` prints for a shell."""

from stack.cli import lines_to_paste


def test_the_lines_set_all_that_commands_and_clients_need() -> None:
    document = {
        "zookeeper": "127.0.0.1:2181",
        "bootstrap": "127.0.0.1:9092,127.0.0.1:9093",
        "security_file": "/a b/s.yaml",
    }
    assert list(lines_to_paste(document)) == [
        "export SWITCHYARD_ZOOKEEPER=127.0.0.1:2181",
        "export SWITCHYARD_SECURITY_FILE='/a b/s.yaml'",
        "export BOOTSTRAP=127.0.0.1:9092,127.0.0.1:9093",
        "switchyard status",
    ]


def test_a_stack_without_gateways_and_logins_has_no_variable_for_them() -> None:
    document = {"zookeeper": "127.0.0.1:2181", "bootstrap": "", "security_file": None}
    assert list(lines_to_paste(document)) == ["export SWITCHYARD_ZOOKEEPER=127.0.0.1:2181", "switchyard status"]
