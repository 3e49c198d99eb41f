import pytest

from hermes.models.thinking import ThinkSplitter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>why</think>answer", ("why", "answer")),
        ("\n <think>why</think>\n\nanswer", ("why", "answer")),
        ("answer", ("", "answer")),
        ("  answer ", ("", "  answer ")),
        ("<think></think>answer", ("", "answer")),
        ("<think>a < b </thin k>", ("a < b </thin k>", "")),
        ("<think>cut o", ("cut o", "")),
        ("<think>x</think>", ("x", "")),
        ("use <think>x</think>", ("", "use <think>x</think>")),
        ("<thinker>", ("", "<thinker>")),
        ("<thi", ("", "<thi")),
        ("<think>a</think>b<think>c</think>", ("a", "b<think>c</think>")),
        ("", ("", "")),
    ],
)
def test_reasoning_is_cut_off_however_the_text_is_cut(text: str, expected: tuple[str, str]) -> None:
    for size in range(1, len(text) + 1):
        splitter = ThinkSplitter()
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        parts = [*map(splitter.feed, pieces), splitter.close()]
        assert tuple(map("".join, zip(*parts, strict=True))) == expected


def test_nothing_certain_is_held_back() -> None:
    splitter = ThinkSplitter()
    assert splitter.feed("<think>because") == ("because", "")
    assert splitter.feed(" of </") == (" of ", "")
    assert splitter.feed("b>") == ("</b>", "")
    assert splitter.feed("</think>\n") == ("", "")
    assert splitter.feed("so") == ("", "so")
    assert splitter.feed(" it is") == ("", " it is")
