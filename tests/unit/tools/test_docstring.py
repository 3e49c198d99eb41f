from hermes.tools.docstring import read_docstring


def read_logs() -> None:
    """Read error lines of one day.

    Use it for nginx logs only.

    Args:
        log_path (Path): the log file,
            plain or rotated
        *date: the day: `2026-11-29`

        level: least severity

    Returns:
        dict: lines by level,
        newest first.

        A second paragraph.

    Raises:
        OSError: The file cannot be read.

    Example:
        read_logs("error.log")
    """


def test_arguments_are_taken_out_with_their_continuation_lines() -> None:
    assert read_docstring(read_logs.__doc__).arguments == {
        "log_path": "the log file, plain or rotated",
        "date": "the day: `2026-11-29`",
        "level": "least severity",
    }


def test_the_description_keeps_what_a_model_needs() -> None:
    assert read_docstring(read_logs.__doc__).description == (
        "Read error lines of one day.\n\nUse it for nginx logs only.\n\n"
        "Returns: dict: lines by level, newest first.\n"
        'Example:\n    read_logs("error.log")'
    )


def test_text_after_a_section_belongs_to_the_description_again() -> None:
    docs = read_docstring("Read.\n\nArgs:\n    day: the day\n\nNever guesses.\n")

    assert docs.description == "Read.\n\nNever guesses."
    assert docs.arguments == {"day": "the day"}


def test_a_colon_at_a_line_end_makes_no_section() -> None:
    assert (
        read_docstring("Takes one of:\nlow or high.").description == "Takes one of:\nlow or high."
    )


def test_no_docstring_says_nothing() -> None:
    assert read_docstring(None).description == ""
    assert read_docstring("").arguments == {}
