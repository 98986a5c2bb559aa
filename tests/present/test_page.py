"""A page as a log and as an approval show it."""

from ha_core.present.page import MAX_ROWS, Marked, Page, Table, log_lines, markdown
from ha_core.present.web.blocks import blocks

ROWS = [(f"orders-{number}", "" if number else "named") for number in range(MAX_ROWS + 5)]
MANY = Table(("topic", "because"), ROWS, title="what moves")


def test_a_log_has_every_row_unless_it_is_bounded() -> None:
    assert len(list(log_lines([MANY]))) == 1 + len(ROWS)
    assert list(log_lines([MANY], max_rows=1)) == [
        "what moves:",
        "  topic orders-0, because named",
        f"  … and {len(ROWS) - 1} more",
    ]


def test_a_row_of_a_log_is_a_sentence_where_the_table_has_one() -> None:
    table = Table(("topic", "because"), [("orders", "it is named")], line="{} moves, because {}".format)

    assert list(log_lines(["a title", table])) == ["a title", "  orders moves, because it is named"]


def test_an_approval_is_bounded_and_says_where_the_rest_is() -> None:
    text = markdown([Marked("east → west", "strong"), MANY])

    assert text.startswith("**east → west**\n\nwhat moves:\n\n| topic | because |\n| --- | --- |\n| orders-0 | named |")
    assert text.count("orders-") == MAX_ROWS
    assert text.endswith("… and 5 more: the log of the task `plan` has them all.")


def test_markup_in_names_of_clients_is_shown_and_not_obeyed() -> None:
    assert "\\*\\*bold\\*\\* \\<script\\>" in markdown([Table(("who",), [("**bold**\n<script>",)])])
    assert markdown([Marked("a_b", "strong")]) == "**a\\_b**"


def test_a_command_on_a_page_is_set_as_one_and_names_stay_text() -> None:
    page: Page = ["`switchyard mirrors` shows <b>", Table(("why",), [("is the job `mirror` running?",)])]

    text = str(blocks(page))

    assert "<p><code>switchyard mirrors</code> shows &lt;b&gt;</p>" in text
    assert "<td>is the job <code>mirror</code> running?</td>" in text
    assert "`" not in text


HOSTILE = "x\x1b[2K\x1b]0;owned\x07\nadmin\u202e\u200b\x9b\ud800"


def test_names_that_would_move_a_terminal_or_forge_a_line_are_shown_by_their_numbers() -> None:
    page: Page = [HOSTILE, Marked(HOSTILE, "error"), Table(("who",), [(HOSTILE,), (Marked(HOSTILE, "bad"),)], HOSTILE)]

    told = [*log_lines(page), *str(blocks(page)).split("\n"), *markdown(page).split("\n")]

    assert all(line.isprintable() for line in told)
    assert sum("x1b" in line for line in told) >= 9
    assert not any(line.startswith("admin") for line in told)
