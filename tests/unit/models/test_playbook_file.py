import re
from pathlib import Path
from textwrap import dedent

import pytest

from hermes.errors import ConfigError
from hermes.models.playbook_file import When, load_playbook

HEAD = "playbook: 1\nrules:\n"


def load(tmp_path: Path, text: str, *, name: str = "book.yaml") -> ConfigError:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_playbook(path)
    assert str(path) in caught.value.message
    return caught.value


def rule(body: str) -> str:
    """A playbook of one rule with this body."""
    lines = "name: r\nwhen: {all: [x]}\n" + dedent(body).strip("\n")
    indented = lines.replace("\n", "\n    ")
    return f"{HEAD}  - {indented}\n"


def test_yaml_and_toml_say_the_same(tmp_path: Path) -> None:
    yaml, toml = tmp_path / "same.yaml", tmp_path / "same.toml"
    yaml.write_text(
        dedent(
            """
            playbook: 1
            otherwise: "no: {{ goal }}"
            rules:
              - name: one
                when: {all: [Ｎginx], any: [错误, error], regex: '(?P<day>\\d+)'}
                set: {order: count}
                steps:
                  - {call: look, with: {day: "{{ day }}", n: 3, at: 2026-01-02}, as: seen}
                  - {foreach: seen.rows, item: row, call: tell, if: row.ok, on_error: continue}
                answer: "{{ seen.text }}"
            """
        ),
        encoding="utf-8",
    )
    toml.write_text(
        dedent(
            """
            playbook = 1
            otherwise = "no: {{ goal }}"
            [[rules]]
            name = "one"
            when = {all = ["Ｎginx"], any = ["错误", "error"], regex = '(?P<day>\\d+)'}
            set = {order = "count"}
            answer = "{{ seen.text }}"
            [[rules.steps]]
            call = "look"
            with = {day = "{{ day }}", n = 3, at = 2026-01-02}
            as = "seen"
            [[rules.steps]]
            foreach = "seen.rows"
            item = "row"
            call = "tell"
            if = "row.ok"
            on_error = "continue"
            """
        ),
        encoding="utf-8",
    )
    one, other = load_playbook(yaml), load_playbook(str(toml))
    assert one.name == other.name == "same"
    assert [str(rule.when) for rule in one.rules] == [str(rule.when) for rule in other.rules]
    (read,) = one.rules
    assert str(read.when) == (
        "all of 'nginx' and any of '错误', 'error' and regex '(?P<day>\\\\d+)'"
    )
    look, tell = read.steps
    assert (look.arguments["n"], look.arguments["at"]) == (3, "2026-01-02")
    assert (tell.item, tell.continues, str(tell)) == ("row", True, "step 2 (tell)")
    assert [str(step) for step in other.rules[0].steps] == [str(look), str(tell)]


@pytest.mark.parametrize(
    ("when", "goal", "expected"),
    [
        (When(all_of=("nginx", "log")), "The NGINX Log", {}),
        (When(all_of=("nginx", "log")), "nginx", None),
        (When(any_of=("错误", "error")), "看看错误", {}),
        (When(any_of=("错误", "error")), "fine", None),
        (When(all_of=("nginx",)), "ｎｇｉｎｘ", {}),
        (When(all_of=("strasse",)), "Straße", {}),
        (When(regex=re.compile(r"(?P<d>\d\d)/(?P<m>\d)?", re.IGNORECASE)), "１２/", {"d": "12"}),
        (When(regex=re.compile(r"FROM (?P<who>\w+)", re.IGNORECASE)), "from Ann", {"who": "Ann"}),
        (When(all_of=("a",), regex=re.compile("z")), "a", None),
        (When(), "anything", {}),
    ],
)
def test_all_conditions_must_hold(
    when: When, goal: str, expected: dict[str, object] | None
) -> None:
    assert when.match(goal) == expected


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read playbook .*none\.yaml.*No such file"):
        load_playbook(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("b.yaml", "playbook: 1\nrules: [a\nx: 1", ", line 3, column 2: is not YAML"),
        ("b.yaml", "a: \x00", "is not YAML"),
        ("b.yaml", "a: 2026-13-01", ", line 1, column 4: is not YAML"),
        ("b.yaml", "a: !!python/object:os.system x", "is not YAML"),
        ("b.toml", "a = ", ", line 1, column 5: is not TOML"),
        ("b.json", "{}", "must end in .toml, .yaml or .yml"),
        ("b.yaml", "x" * 2**20 + "x", "over 1 MiB"),
    ],
)
def test_a_file_that_cannot_be_parsed(tmp_path: Path, name: str, text: str, words: str) -> None:
    assert words in load(tmp_path, text, name=name).message


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    path.write_bytes(b"name: \xff")
    with pytest.raises(ConfigError, match="line 1, column 7: is not UTF-8"):
        load_playbook(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- 1", "must hold a table of keys, got a list"),
        ("rules: []", "playbook: the format version must be 1, got None"),
        ("playbook: 2\nrules: []", "must be 1, got 2"),
        ("playbook: 1", "rules: must be a list with at least one item"),
        ("playbook: 1\nrules: {}", "rules: must be a list"),
        ("playbook: 1\nruels: []", "ruels: unknown key (did you mean `rules`?)"),
        (HEAD + "  - {answer: a}", "rules[0].name: is missing"),
        (HEAD + "  - {name: a, wen: {}, answer: a}", "rules[0].wen: unknown key (did you mean"),
        (
            HEAD + "  - {name: a, when: {al: [x]}, answer: a}",
            "rules[0].when.al (rule 'a'): unknown key (did you mean `all`?)",
        ),
        (
            HEAD + "  - {name: a, when: {all: x}, answer: a}",
            "rules[0].when.all (rule 'a'): must be",
        ),
        (HEAD + "  - {name: a, when: {any: []}, answer: a}", "at least one item"),
        (
            HEAD + "  - {name: a, when: {any: [no]}, answer: a}",
            "rules[0].when.any[0] (rule 'a'): must be a text, got False (put it in quotes)",
        ),
        (
            HEAD + "  - {name: a, when: {regex: '('}, answer: a}",
            "not a regular expression: missing )",
        ),
        (HEAD + "  - {name: a, when: {regex: '(?P<goal>x)'}, answer: a}", "`goal` is taken"),
        (HEAD + "  - {name: a}", "rules[0].answer (rule 'a'): is missing"),
        (
            HEAD + "  - {name: a, when: {all: [x]}, answer: a}\n  - {name: a, answer: b}",
            "rules[1]: a second rule has the name 'a'",
        ),
        (
            HEAD + "  - {name: a, answer: a}\n  - {name: b, answer: b}",
            "rules[1]: never reached: rule 'a' before it has no conditions",
        ),
        ("otherwise: '{{ date }}'\n" + HEAD + "  - {name: a, answer: a}", "`date` is not defined"),
        (HEAD + "  - {name: a, 1: 2, answer: a}", "must be a mapping with names"),
    ],
)
def test_a_mistake_stops_the_start_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    assert words in str(load(tmp_path, text))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            """
            steps: [{call: t, iff: "1"}]
            answer: a
            """,
            "rules[0].steps[0].iff (rule 'r'): unknown key (did you mean `if`?)",
        ),
        (
            """
            steps: [{call: t, with: {a: "{{ sumary.x }}"}, as: summary}]
            answer: "{{ sumary }}"
            """,
            "rules[0].steps[0].with.a (rule 'r', step 1 (t)): `sumary` is not defined",
        ),
        (
            """
            steps: [{call: t, as: summary}]
            answer: "{{ sumary }}"
            """,
            "rules[0].answer (rule 'r'): `sumary` is not defined (did you mean `summary`?)",
        ),
        (
            """
            steps: [{call: t, with: {a: {b: [x, "{{ goal"]}}}]
            answer: a
            """,
            "rules[0].steps[0].with.a.b[1] (rule 'r', step 1 (t)): '{{ goal': ",
        ),
        (
            """
            steps: [{call: t, if: "{{ goal }}"}]
            answer: a
            """,
            "rules[0].steps[0].if (rule 'r', step 1 (t)): ",
        ),
        (
            """
            steps: [{call: t, foreach: "item"}]
            answer: a
            """,
            "foreach (rule 'r', step 1 (t)): `item` is not defined",
        ),
        (
            """
            steps: [{call: t, item: x}]
            answer: a
            """,
            "`item` without `foreach`",
        ),
        (
            """
            steps: [{call: t, as: vars}]
            answer: a
            """,
            "`vars` is taken",
        ),
        (
            """
            steps: [{call: t, as: a-b}]
            answer: a
            """,
            "`a-b` is not a name",
        ),
        (
            """
            steps: [{call: t, on_error: ignore}]
            answer: a
            """,
            "must be `stop` or `continue`, got 'ignore'",
        ),
        (
            """
            steps: [{call: t, with: {a: .nan}}]
            answer: a
            """,
            "cannot be written as JSON: nan",
        ),
        (
            """
            steps: [{with: {}}]
            answer: a
            """,
            "rules[0].steps[0].call (rule 'r'): is missing",
        ),
        (
            """
            set: {a: "{{ b }}", b: 1}
            answer: a
            """,
            "rules[0].set.a (rule 'r'): `b` is not defined",
        ),
        (
            """
            set: {goal: 1}
            answer: a
            """,
            "`goal` is taken",
        ),
    ],
)
def test_a_mistake_in_a_rule_names_rule_step_and_reason(
    tmp_path: Path, body: str, words: str
) -> None:
    assert words in str(load(tmp_path, rule(body)))
